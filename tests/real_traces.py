"""The real traces of the reference data, and how its timeline names our figures."""

TRACES = (
    "bert_small_h100",
    "bert_small_mi300x",
    "compiled_llama_layer",
    "gpu_only_mi210",
    "norm_layers_mi300x",
    "owlv2_h100",
    "owlv2_mi300x",
    "qwen15_mi300x",
    "resnet_checkpoint_mi300x",
    "sd35_compiled_mi300x",
    "sglang_decode_graph_mi300x",
    "sglang_prefill_mi300x",
    "vit_h100",
    "vit_mi300x",
    "vllm_eager_b200",
    "vllm_piecewise_graph",
)
EXPECTED_TRACES = tuple(name for name in TRACES if name != "gpu_only_mi210")
"""Those that have expected rows and a timeline."""
TIMELINE_FIELDS = {
    "total_time": "total_ms",
    "computation_time": "computation_ms",
    "exposed_comm_time": "exposed_communication_ms",
    "exposed_memcpy_time": "exposed_memcpy_ms",
    "busy_time": "busy_ms",
    "idle_time": "idle_ms",
    "total_comm_time": "communication_ms",
    "total_memcpy_time": "memcpy_ms",
}
