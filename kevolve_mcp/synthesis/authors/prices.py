"""The price of tokens: the user's figures, or the price table of pydantic-ai; never a guess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MILLION = 1_000_000
_USUAL_INPUT = 10_000  # tokens of one ask: some models charge more for very long ones


class Usage(Protocol):
    """The tokens that a request used; cached tokens are part of input_tokens."""

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens. listed: (model, provider) to look up a request's cost in the
    price table, which knows discounts for cached tokens and surcharges for long inputs; None where
    the user gave the figures."""

    per_input: float
    per_output: float
    listed: tuple[str, str] | None = None

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost by the figures per million tokens."""
        return (input_tokens * self.per_input + output_tokens * self.per_output) / MILLION

    def usd_of(self, usage: Usage) -> float:
        """Return the cost of a finished request."""
        if self.listed is not None:
            from genai_prices import calc_price

            try:
                model, provider = self.listed
                return float(calc_price(usage, model, provider_id=provider).total_price)
            # the table has a price for this model, but not for this kind of use
            except (LookupError, ValueError):
                pass
        return self.usd(usage.input_tokens, usage.output_tokens)

    def output_for(self, usd: float, input_tokens: int) -> int | None:
        """Return how many output tokens `usd` pays for after the input; negative where the input
        alone costs more; None for any number."""
        left = usd - self.usd(input_tokens, 0)
        if self.per_output <= 0:
            return None if left >= 0 else -1
        return int(left / self.per_output * MILLION)


def listed_prices(model: str, provider: str) -> Prices | None:
    """Return prices from the price table, None where it does not know the model."""
    from genai_prices import Usage as Used
    from genai_prices import calc_price

    try:
        price = calc_price(
            Used(input_tokens=_USUAL_INPUT, output_tokens=_USUAL_INPUT), model, provider_id=provider
        )
    except LookupError:
        return None
    scale = MILLION / _USUAL_INPUT
    return Prices(
        float(price.input_price or 0) * scale,
        float(price.output_price or 0) * scale,
        (model, provider),
    )
