"""The written list of published tensors is what a model of the same config holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.engine.config import PROJECTORS, Projector
from pipeline.engine.model import Model
from pipeline.engine.names import to_official
from pipeline.engine.published import projector_shapes, shapes
from tests.unit.engine.shapes import SHAPES, model_of


@pytest.mark.parametrize("projector", PROJECTORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_names_and_shapes_are_those_of_the_model_but_for_the_copies_in_the_mtp_layer(shape: str, projector: Projector) -> None:
    model = Model(replace(model_of(shape).config, ct_projector_type=projector))
    held = {name: tuple(tensor.shape) for name, tensor in to_official(dict(model.state_dict()), model.config).items()}
    first = model.config.num_hidden_layers
    starts = [f"model.layers.{layer}." for layer in range(first, first + model.config.num_nextn_predict_layers)]
    copies = {f"{start}embed_tokens.weight": held["model.embed_tokens.weight"] for start in starts}
    copies |= {f"{start}shared_head.head.weight": held["lm_head.weight"] for start in starts}
    assert held == shapes(model.config) | projector_shapes(model.config) | copies
