#!/bin/sh
# Start one vLLM 0.32 server of a DeepSeek checkpoint with MTP: sh serve.sh MODEL [more flags]. README.md explains the flags.
#   VLLM_API_KEY            what the workers send (CTREPORT_VLLM_API_KEY)
#   CTREPORT_SERVED_DIGEST  what `ctreport model digest MODEL` prints: the served model's name
#   STEPS (3) GPUS (1) CONTEXT (4096) HOST (127.0.0.1) PORT (8000)
set -eu
model=${1:?name the checkpoint folder: sh serve.sh MODEL}
shift
test -n "${VLLM_API_KEY:-}" || { echo "VLLM_API_KEY is empty: a draft server without a key writes for everybody"; exit 1; }
test "${#CTREPORT_SERVED_DIGEST}" -eq 64 || { echo "CTREPORT_SERVED_DIGEST must be the 64 hex digits of \`ctreport model digest\`"; exit 1; }
PYTHONPATH="$(cd "$(dirname "$0")" && pwd)${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
exec "${PYTHON:-python3}" -m vllm.entrypoints.openai.api_server --model "$model" --served-model-name "$CTREPORT_SERVED_DIGEST" \
    --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" --tensor-parallel-size "${GPUS:-1}" --max-model-len "${CONTEXT:-4096}" \
    --speculative-config "{\"method\": \"mtp\", \"num_speculative_tokens\": ${STEPS:-3}}" --per-request-spec-decode-metrics summary \
    --structured-outputs-config '{"backend": "guidance", "disable_any_whitespace": true}' --enable-prompt-embeds "$@"
