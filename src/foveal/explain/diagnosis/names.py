"""What things are called in everybody's code: the names by which arguments and attributes are recognised."""
# ruff: noqa: SIM905  # a list of words reads better as words

# Of a constructor, and of what a module keeps
WIDTHS = (
    "width embed_dim d_model dim hidden_size n_embd embedding_dim emb_dim embed_size emb_size model_dim hidden_dim "
    "input_dim in_dim dim_in "
    "channels in_channels features in_features query_width query_dim dim_model d d_in n_state key_width key_dim "
    "value_dim kdim vdim"
).split()
HEADS = "heads num_heads n_heads n_head nhead nheads num_attention_heads head_num h".split()
HEAD_WIDTHS = "head_width head_dim dim_head d_head d_k d_v head_size dim_heads kv_channels".split()
GROUPS = "groups kv_heads num_kv_heads n_kv_heads num_key_value_heads".split()
KEY_WIDTHS = "kdim key_width key_dim context_dim dim_context memory_width cross_attention_dim".split()
HIDDEN_WIDTHS = "hidden hidden_width hidden_features inner_dim state_width attention_dim".split()
LENGTHS = (
    "block_size seq_len seq_length sequence_length max_len max_length max_seq_len max_seq_length n_ctx ctx_len "
    "context_length length "
    "num_tokens max_position_embeddings n_positions tokens"
).split()
CONFIGS = "config cfg conf args hparams opt options params".split()

# Of a call
QUERIES = "q query queries xq query_states q_input".split()
KEYS = "k key keys xk key_states k_input".split()
VALUES = "v value values xv value_states v_input".split()
SOURCES = "memory context source encoder_hidden_states kv cond y key_value_states x_kv encoder_output".split()
PADDING = "key_padding_mask padding_mask src_key_padding_mask pad_mask key_pad_mask".split()
MASKS = [*"mask attn_mask attention_mask src_mask tgt_mask self_mask key_mask seq_mask".split(), *PADDING]
CAUSAL = "is_causal causal use_causal_mask".split()
CACHES = "cache kv_cache past_key_values past_key_value layer_past past past_kv layer_cache prev_kv".split()
CACHE_SWITCHES = (
    "use_cache return_cache return_intermediates return_kv return_kv_cache return_present output_cache".split()
)
STARTS = "start_pos start offset position_offset past_length cache_position".split()
