document.documentElement.classList.add("scripted");
