"""What a user decides about a dataset."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class DatasetSettings(BaseModel):
    """A dataset in a folder (docs/datasets.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["parquet", "jsonl"] = Field(description="Format of the files.")
    folder: Path = Field(description="Folder of the dataset; of one bridge, and one kind, only.")
    include_messages: bool = Field(
        default=True, description="Whether messages are written; else they are null."
    )
    include_distillation: bool = Field(
        default=True, description="Whether the teacher's values are written; else they are null."
    )
    neutral_fill: bool = Field(
        default=False,
        description="Whether sampled positions without a teacher get the student's own values, "
        "so that all sampled positions have k; needs model.sampling.topLogprobs of at least k.",
    )

    @model_validator(mode="after")
    def _fill_what_is_included(self) -> Self:
        if self.neutral_fill and not self.include_distillation:
            raise ValueError("neutral_fill needs include_distillation")
        return self
