int run_calls(int count, char** arguments);
int main(int count, char** arguments) { return run_calls(count, arguments); }
