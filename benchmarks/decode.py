"""How fast is decoding beside Hugging Face's Marian and CTranslate2?

The same weights on every side, and every hypothesis is forced to the same length, so the work is equal: sentences of 6
to 30 tokens, 20 steps each. CTranslate2 has each of its two thread layouts.

    python benchmarks/decode.py --preset tiny --batch 64 --beam 5 --rounds 8 [--threads 2]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import torch
from peers import marian
from torch import Tensor
from turns import Work, table, take_turns

from regard.cli.allocator import keep_freed_memory
from regard.generation import SearchOptions, generate_all
from regard.models import PackedWeights, Sinusoidal, Transformer, bind, build, preset
from regard.protocols import EOS, PAD, SPECIALS

VOCABULARY = 10_000
STEPS = 20
AT_LEAST = 8  # sentences a turn, or a side that decodes them one at a time would mostly find its cache taken by another
Sentences = list[list[int]]


def model_of(size: str) -> Transformer:
    """Return a model with random weights, the same in every process; its tables are those of Marian."""
    torch.manual_seed(1)
    spec = preset(size, source_vocab=VOCABULARY, target_vocab=VOCABULARY)
    return build(replace(spec, tie="all", output_bias=False, positions=Sinusoidal(layout="half"))).eval()


def sentences(count: int) -> Sentences:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(6, 31, (count,), generator=generator).tolist()
    return [[*torch.randint(len(SPECIALS), VOCABULARY, (n - 1,), generator=generator).tolist(), EOS] for n in lengths]


def regard_side(size: str, turns: list[list[Sentences]], beam: int, threads: int) -> Work:
    torch.set_num_threads(threads)
    keep_freed_memory()
    # all three as a Translator has them
    model, packed = model_of(size).lay_out_for_steps(), PackedWeights()
    options = SearchOptions(beam=beam, min_length=STEPS, max_length=STEPS, score="average")

    def translate(batch: Sentences) -> int:
        found = generate_all(bind(model, packed), batch, options, batch_tokens=10**9)
        assert all(len(best.ids) == STEPS for best, *_ in found)
        return len(found)

    return lambda turn: sum(map(translate, turns[turn]))


def marian_of(ours: Transformer) -> Any:
    """Return Hugging Face's Marian with the weights of ``ours``."""
    theirs = marian(ours.spec).eval()
    weights: dict[str, Tensor] = {"model.shared.weight": ours.output.weight}
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    maps = {"feed_forward.inner": "fc1", "feed_forward.outer": "fc2", "feed_forward_residual.norm": "final_layer_norm"}
    norms = {"self_residual.norm": "self_attn_layer_norm", "cross_residual.norm": "encoder_attn_layer_norm"}
    for name, value in ours.state_dict().items():
        side, _, rest = name.partition(".layers.")
        if not rest:
            continue
        layer, part, kind = rest.split(".", 1)[0], *rest.split(".", 1)[1].rsplit(".", 1)
        prefix = f"model.{side}.layers.{layer}"
        first, _, last = part.partition(".")
        if last == "qkv":
            for letter, third in zip("qkv", value.chunk(3), strict=True):
                weights[f"{prefix}.{attentions[first]}.{letter}_proj.{kind}"] = third
        elif first in attentions:
            weights[f"{prefix}.{attentions[first]}.out_proj.{kind}"] = value
        else:
            weights[f"{prefix}.{(maps | norms)[part]}.{kind}"] = value
    unknown = theirs.load_state_dict(weights, strict=False).unexpected_keys
    assert not unknown, unknown
    theirs.tie_weights()
    return theirs


def marian_side(size: str, turns: list[list[Sentences]], beam: int, threads: int) -> Work:
    torch.set_num_threads(threads)
    model = marian_of(model_of(size))

    @torch.inference_mode()
    def translate(batch: Sentences) -> int:
        rows = [torch.tensor(row) for row in batch]
        source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=STEPS,
            max_new_tokens=STEPS,
        )
        return len(rows)

    return lambda turn: sum(map(translate, turns[turn]))


def save_for_ctranslate2(ours: Transformer, folder: str) -> None:
    from ctranslate2.specs import common_spec, transformer_spec

    def array(tensor: Tensor) -> Any:
        return tensor.detach().numpy().copy()

    def linear(spec: Any, weight: Tensor, bias: Tensor) -> None:
        spec.weight, spec.bias = array(weight), array(bias)

    def norm(spec: Any, module: Any) -> None:
        spec.gamma, spec.beta = array(module.weight), array(module.bias)

    sizes = (ours.spec.encoder_layers, ours.spec.decoder_layers)
    spec = transformer_spec.TransformerSpec.from_config(
        sizes, ours.spec.num_heads, pre_norm=False, activation=common_spec.Activation.RELU
    )
    D = ours.spec.d_model
    for side, stack, embedding in (
        (spec.encoder, ours.encoder, ours.source_embedding),
        (spec.decoder, ours.decoder, ours.target_embedding),
    ):
        words = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        words.weight = array(ours.output.weight)
        side.scale_embeddings = True
        side.position_encodings.encodings = array(embedding.positions.table)
        for target, layer in zip(side.layer, stack.layers, strict=True):
            linear(target.self_attention.linear[0], layer.self_attention.qkv.weight, layer.self_attention.qkv.bias)
            linear(target.self_attention.linear[1], layer.self_attention.out.weight, layer.self_attention.out.bias)
            norm(target.self_attention.layer_norm, layer.self_residual.norm)
            if side is spec.decoder:
                cross = layer.cross_attention
                linear(target.attention.linear[0], cross.qkv.weight[:D], cross.qkv.bias[:D])
                linear(target.attention.linear[1], cross.qkv.weight[D:], cross.qkv.bias[D:])
                linear(target.attention.linear[2], cross.out.weight, cross.out.bias)
                norm(target.attention.layer_norm, layer.cross_residual.norm)
            linear(target.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
            linear(target.ffn.linear_1, layer.feed_forward.outer.weight, layer.feed_forward.outer.bias)
            norm(target.ffn.layer_norm, layer.feed_forward_residual.norm)
    spec.decoder.projection.weight = array(ours.output.weight)
    tokens = ["<blank>", *SPECIALS[1:], *(f"t{i}" for i in range(len(SPECIALS), VOCABULARY))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(folder)


def ctranslate2_side(size: str, turns: list[list[Sentences]], beam: int, layout: tuple[int, int]) -> Work:
    import ctranslate2

    workers, threads = layout
    with TemporaryDirectory() as folder:
        save_for_ctranslate2(model_of(size), folder)
        translator = ctranslate2.Translator(folder, inter_threads=workers, intra_threads=threads)

    def translate(batch: Sentences) -> int:
        share = max(1, -(-len(batch) // workers))
        found = translator.translate_batch(
            [[SPECIALS[EOS] if i == EOS else f"t{i}" for i in row] for row in batch],
            beam_size=beam,
            max_batch_size=share,
            min_decoding_length=STEPS,
            max_decoding_length=STEPS,
        )
        assert all(len(one.hypotheses[0]) == STEPS for one in found)
        return len(found)

    return lambda turn: sum(map(translate, turns[turn]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    words = parser.parse_args()
    count = words.rounds * max(1, AT_LEAST // words.batch)
    batches = [sentences(words.batch * count)[i::count] for i in range(count)]
    turns = [batches[turn :: words.rounds] for turn in range(words.rounds)]
    work = (words.preset, turns, words.beam)
    sides: dict[str, Callable[[], Work]] = {
        "regard": partial(regard_side, *work, words.threads),
        "Marian": partial(marian_side, *work, words.threads),
    }
    try:
        import ctranslate2

        print(f"CTranslate2 {ctranslate2.__version__}, float32")
        sides[f"CTranslate2, 1 × {words.threads}"] = partial(ctranslate2_side, *work, (1, words.threads))
        sides[f"CTranslate2, {words.threads} × 1"] = partial(ctranslate2_side, *work, (words.threads, 1))
    except ImportError:
        print("CTranslate2 is not installed; it is left out")
    times = take_turns(sides, words.rounds)
    print(f"{words.preset}, batch {words.batch}, beam {words.beam}, {STEPS} steps, {words.threads} threads")
    print(table(times, "sentences", "Marian"))
    for name, side in times.items():
        if name.startswith("CT"):
            print(f"regard is {statistics.median(times['regard'].speed_against(side)):.2f} × {name}")


if __name__ == "__main__":
    main()
