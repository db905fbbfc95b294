#!/usr/bin/env bash
# A launch as people publish them. `configurator lint` says what is wrong with it, for the release it runs.
export SGLANG_ENABLE_SPEC_V2=1
NODE_RANK="${NODE_RANK:-0}"
ARGS=(
  --model-path Qwen/Qwen3-8B
  --tp "${TP:-1}"
  --mem-fraction-static 0.80
  --cuda-graph-max-bs 64   # renamed in 0.5.14, gone since 0.5.20
)
if [[ "$NODE_RANK" -eq 0 ]]; then
  ARGS+=(--enable-metrics)
fi
exec python3 -m sglang.launch_server "${ARGS[@]}"
