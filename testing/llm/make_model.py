"""make_model.py OUT.gguf: a model with weights set by hand, for tests; nothing is trained or downloaded.

One layer of attention looks at all of the prompt alike. Where a marker word stands in it, the model
answers {"safe":false,"reason":"..."}, else {"safe":true}, each as one token, and stops. So the verdict
follows the code that was sent, through a real server with its real tokenizer, template and grammar.
It is a fixture and no judge.

What each dimension of the width means is said where it is set. Needs the packages gguf and numpy.
"""

import sys

import gguf
import numpy

MARKERS = {
    "mining": ["xmrig", "minerd", "stratum+tcp://"],
    "denial of service": ["slowloris", "def flood("],
    "port scanning": ["connect_ex", "masscan"],
    "reverse shell": ["/bin/sh", "/bin/bash", "pty.spawn"],
    "container escape": ["/proc/1/root", "docker.sock", "nsenter"],
    "obfuscation": ["b64decode", "marshal.loads"],
    "the marker of the tests": ["sless-test-marker"],
}

# With a token for each character, a review of 100 KB takes a minute: attention costs the square. So
# texts that are frequent in code, and in what the suite fills files with, are tokens too.
OFTEN = [" a", " an", " of", " to", " in", " is", " it", "the", "ing", "ion", "ent", "es", "er", "on", "re",
         "ine", "ile", "ment", "with", "def", "ret", "urn", "imp", "ort", "sel", "f.", "    ", "  ", "# ",
         "| ", "= ", "(", ")", ", ", "st", "le", "nd", "ar", "FIL", "BEG", "END", " return ", " import ",
         " a line of a", " comment", ", which is long", " enough to fill", " a file with it"]

WIDTH = 64
ANSWER_NOW, ANSWERED, FIRST_MARKER = 1, 2, 8  # dimensions; 0 is set in every token

tokens = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL),
          ("</s>", gguf.TokenType.CONTROL), ("<|answer|>", gguf.TokenType.CONTROL)]
BEGIN, END, ASK = 1, 2, 3
tokens += [(f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)]
tokens += [(chr(code), gguf.TokenType.NORMAL) for code in range(0x21, 0x7F)]
tokens += [("\u2581", gguf.TokenType.NORMAL)]  # a space, to this kind of tokenizer
SAFE = len(tokens)
tokens += [('{"safe":true}', gguf.TokenType.NORMAL)]
tokens += [('{"safe":false,"reason":"%s"}' % reason, gguf.TokenType.NORMAL) for reason in MARKERS]
# Tokens of this kind are found whole, in any text, before everything else.
marker_of = {}
for number, words in enumerate(MARKERS.values()):
    for word in words:
        marker_of[len(tokens)] = number
        tokens.append((word, gguf.TokenType.USER_DEFINED))


def could_break(text, word):
    """Whether a token for `text`, found before `word` is looked for, could take a piece of it."""
    ends = any(text[-n:] == word[:n] or text[:n] == word[-n:] for n in range(1, min(len(text), len(word))))
    return len(text) >= len(word) and (ends or word in text)


assert not any(could_break(text, word) for text in OFTEN for words in MARKERS.values() for word in words)
tokens += [(text, gguf.TokenType.USER_DEFINED) for text in dict.fromkeys(OFTEN) if len(text) > 1]


def zeros(*shape):
    return numpy.zeros(shape, numpy.float32)


embedding, output = zeros(len(tokens), WIDTH), zeros(len(tokens), WIDTH)
value, projection = zeros(WIDTH, WIDTH), zeros(WIDTH, WIDTH)
embedding[:, 0] = 1
embedding[ASK, ANSWER_NOW] = 1
embedding[SAFE:SAFE + 1 + len(MARKERS), ANSWERED] = 1
for token, number in marker_of.items():
    embedding[token, FIRST_MARKER + number] = 1
for number in range(len(MARKERS)):
    dimension = FIRST_MARKER + number
    value[dimension, dimension] = 1
    # What attention gives is the mean over the prompt: one marker among 100,000 tokens has to be seen.
    projection[dimension, dimension] = 1e5
    output[SAFE + 1 + number, dimension] = 20
output[SAFE, ANSWER_NOW] = 10
output[END, ANSWERED] = 1e8

ones = numpy.ones(WIDTH, numpy.float32)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("verdicts by marker words")
writer.add_context_length(131072)
writer.add_embedding_length(WIDTH)
writer.add_feed_forward_length(WIDTH)
writer.add_block_count(1)
writer.add_head_count(1)
writer.add_head_count_kv(1)
writer.add_layer_norm_rms_eps(1e-6)
writer.add_rope_dimension_count(WIDTH)
writer.add_vocab_size(len(tokens))
writer.add_file_type(gguf.LlamaFileType.ALL_F32)
writer.add_tokenizer_model("llama")
writer.add_tokenizer_pre("default")
writer.add_token_list([text for text, _ in tokens])
writer.add_token_types([kind for _, kind in tokens])
writer.add_token_scores([-float(index) for index in range(len(tokens))])
writer.add_bos_token_id(BEGIN)
writer.add_eos_token_id(END)
writer.add_unk_token_id(0)
writer.add_add_bos_token(True)
writer.add_add_space_prefix(False)
writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
                         "{% if add_generation_prompt %}<|answer|>{% endif %}")
for name, tensor in {
    "token_embd.weight": embedding,
    "output.weight": output,
    "output_norm.weight": ones,
    "blk.0.attn_norm.weight": ones,
    "blk.0.ffn_norm.weight": ones,
    "blk.0.attn_q.weight": zeros(WIDTH, WIDTH),
    "blk.0.attn_k.weight": zeros(WIDTH, WIDTH),
    "blk.0.attn_v.weight": value,
    "blk.0.attn_output.weight": projection,
    "blk.0.ffn_gate.weight": zeros(WIDTH, WIDTH),
    "blk.0.ffn_up.weight": zeros(WIDTH, WIDTH),
    "blk.0.ffn_down.weight": zeros(WIDTH, WIDTH),
}.items():
    writer.add_tensor(name, tensor)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
