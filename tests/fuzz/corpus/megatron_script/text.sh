TP=2
case ${S:-8B} in
  8B|"7B") L=4 ;;
  *) L=8 ;;
esac
for p in a b; do X="$X $p"; done
f() { A="--num-layers $1"; }
f $L
C="python pretrain_gpt.py $A --hidden-size 64 \
 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --tensor-model-parallel-size $TP"
cat <<EOF
text
EOF
srun -N 1 --ntasks-per-node 2 bash -c "cd x && ${C} '--vocab-size' 512"
