#!/usr/bin/env bash
#SBATCH --job-name=agentrl --nodes=1 --gpus=5 --cpus-per-task=32 --time=24:00:00
# job.sh MODEL ENV: four servers on GPUs 1 to 4, the learner on GPU 0. Submitted again, it goes on.
set -euo pipefail

model=$1 env=$2 name=cluster-$2
config=examples/cluster/run.toml
shared=${SHARED:-$PWD/runs}/weights-$name
mkdir -p "$shared"

urls=()
for gpu in 1 2 3 4; do
    port=$((8000 + gpu))
    CUDA_VISIBLE_DEVICES=$gpu agentrl serve --config "$config" --model "$model" --port "$port" &
    urls+=(--url "http://127.0.0.1:$port")
done
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT

settings=(--config "$config" --model "$model" --env "$env" --name "$name")
settings+=("${urls[@]}" --engine.weights_folder "$shared")
if [ -d "runs/$name/checkpoints" ]; then
    settings=(--resume "$name" "${urls[@]}")
fi
CUDA_VISIBLE_DEVICES=0 agentrl train "${settings[@]}"
