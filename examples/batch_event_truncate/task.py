"""Batch event truncate: of every user the first `keep` events stay, in all features at once. The
features are nested and jagged."""

import torch
import torch.nn as nn

USERS = 64


class Model(nn.Module):
    """values: all attributes, by feature, user and event. event_offsets [users + 1]: where a user's
    events begin. value_offsets [features * events + 1]: where the attributes of an event of a
    feature begin. Returns the three for what stays.

    How much stays is known beforehand, as where shapes are static, so that nobody has to ask the
    device.
    """

    def __init__(self, features, keep, kept_events, kept_values):
        super().__init__()
        self.features, self.keep, self.kept_events, self.kept_values = (
            features,
            keep,
            kept_events,
            kept_values,
        )

    def forward(self, values, event_offsets, value_offsets):
        kept = torch.clamp(event_offsets[1:] - event_offsets[:-1], max=self.keep)
        new_events = torch.cat([event_offsets[:1], torch.cumsum(kept, 0)])
        user = torch.repeat_interleave(kept, output_size=self.kept_events)
        event = (
            event_offsets[user]
            + torch.arange(self.kept_events, device=values.device)
            - new_events[user]
        )
        every = (value_offsets.numel() - 1) // self.features
        share = self.kept_values // self.features
        picked, ends = [], []
        for f in range(self.features):  # one feature after the other: the paper's baseline
            begin = value_offsets[f * every + event]
            length = value_offsets[f * every + event + 1] - begin
            end = torch.cumsum(length, 0)
            owner = torch.repeat_interleave(length, output_size=share)
            picked.append(
                values[
                    begin[owner] + torch.arange(share, device=values.device) - (end - length)[owner]
                ]
            )
            ends.append(f * share + end)
        return torch.cat(picked), new_events, torch.cat([value_offsets[:1], *ends])


class Batched(Model):
    """All features at once: a user's first events are one piece of memory in every feature."""

    def forward(self, values, event_offsets, value_offsets):
        start, device = event_offsets[:-1], values.device
        kept = torch.clamp(event_offsets[1:] - start, max=self.keep)
        new_events = torch.cat([event_offsets[:1], torch.cumsum(kept, 0)])
        every = (value_offsets.numel() - 1) // self.features
        feature = every * torch.arange(self.features, device=device).unsqueeze(1)
        begin = value_offsets[feature + start].flatten()
        length = value_offsets[feature + start + kept].flatten() - begin
        shift = begin - (torch.cumsum(length, 0) - length)
        piece = torch.repeat_interleave(length, output_size=self.kept_values)
        picked = values[torch.arange(self.kept_values, device=device) + shift[piece]]
        user = torch.repeat_interleave(kept, output_size=self.kept_events)
        event = start[user] + torch.arange(self.kept_events, device=device) - new_events[user]
        ends = value_offsets[feature + event + 1] - shift.view(self.features, -1)[:, user]
        return picked, new_events, torch.cat([value_offsets[:1], ends.flatten()])


BASELINES = {
    "batched": Batched,
    "batched, compiled": lambda *init: torch.compile(Batched(*init), dynamic=False),
}

CASES = {
    "features_1": {"features": 1},
    "features_9": {"features": 9},
    "features_32": {"features": 32},
    "odd_3": {"features": 3, "events": 77, "keep": 31},
}
HELD_OUT = ["odd_3"]


def _totals(events, keep):
    """Events of each user, all of them, those that stay. Only who has how many is drawn anew: the
    totals are those of the case."""
    counts = torch.linspace(events // 2, events, USERS).long()
    return counts, int(counts.sum()), int(counts.clamp(max=keep).sum())


def _lengths(count):
    return torch.arange(count) % 5


def get_inputs(features=9, events=200, keep=100):
    counts, every, kept = _totals(events, keep)
    counts = counts[torch.randperm(USERS)]
    event_offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(counts, 0)])
    stays = torch.cat([torch.arange(int(c)) < keep for c in counts])
    lengths = torch.empty(features, every, dtype=torch.int64)
    for row in lengths:
        row[stays] = _lengths(kept)[torch.randperm(kept)]
        row[~stays] = _lengths(every - kept)[torch.randperm(every - kept)]
    value_offsets = torch.cat(
        [torch.zeros(1, dtype=torch.int64), torch.cumsum(lengths.flatten(), 0)]
    )
    return [torch.randn(int(value_offsets[-1])), event_offsets, value_offsets]


def get_init_inputs(features=9, events=200, keep=100):
    _, _, kept = _totals(events, keep)
    return [features, keep, kept, features * int(_lengths(kept).sum())]
