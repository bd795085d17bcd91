"""Which address is answered by whom, below `<base_url>theseus/api/`."""

from __future__ import annotations

from theseus.lab import about, actions, logs, runs, streams
from theseus.lab.base import Handler

ID = r"([^/]+)"

ROUTES: list[tuple[str, type[Handler]]] = [
    ("events", streams.EventsHandler),
    ("runs", runs.RunsHandler),
    (f"runs/{ID}", runs.RunHandler),
    (f"runs/{ID}/stream", streams.StreamHandler),
    (f"runs/{ID}/log", logs.LogHandler),
    (f"runs/{ID}/metrics", logs.MetricsHandler),
    (f"runs/{ID}/cancel", actions.CancelHandler),
    (f"runs/{ID}/fetch", actions.FetchHandler),
    (f"runs/{ID}/resubmit", actions.ResubmitHandler),
    (f"tasks/{ID}", actions.TaskHandler),
    ("hosts", actions.HostsHandler),
    ("hosts/refresh", actions.RefreshHandler),
    ("doctor", about.DoctorHandler),
    ("recipes/open", about.RecipeHandler),
    ("cells/complete", about.CompleteHandler),
    ("cells/check", about.CheckHandler),
    ("cells/hover", about.HoverHandler),
]
