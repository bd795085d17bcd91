"""Which address is answered by whom, below `<base_url>theseus/api/`.

Every request needs a known user and, from a browser, the XSRF token of our own pages, reading
included. A mistake is answered with 4xx or 5xx and `{"message", "what_to_do": text | null}`.

`GET runs?since=MARK&all=1`
    `{"v": 1, "mark", "whole", "runs": [RUN], "gone": [ID]}`. With a mark that this server has given,
    only what has changed since (`whole` is false: merge by id). Without `all=1` runs that ended over
    a week ago are left out. RUN is a record of `theseus runs --json` with `ended`, `elapsed`,
    `headline`, `shape`, `position`, `remaining`, `fraction`, `can`, `connection`, `last_line`,
    `spark`, at most 60 losses, and `path`, its folder below the server's one, or null.
`GET runs/ID`
    RUN with `card`: what a notebook keeps as `application/vnd.theseus.run+json`.
`GET events`
    A stream: `runs` `{"mark"}` whenever something in the registry is another. While it is open, runs
    at work are asked how they are.
`GET runs/ID/stream?log=OFFSET&rank=R&points=N&curves=1`
    A stream: `log` `{"rank", "from", "to", "text"}`, where a gap between `to` and `from` says that
    something is left out; with `points`, `points` `{"from", "to", "rows"}`; with `curves=1`, `curves`
    as charts take them, beginning anew with each connection; `card`, all facts; `end`
    `{"again": bool, "error"?}`, where `again` says that another attempt is at work. `rank=all` is all
    logs, and `log` may be `0:OFFSET,1:OFFSET`. `Last-Event-ID` goes on where an event's `id` was.
`GET runs/ID/log?from=&to=&rank=`, `GET runs/ID/metrics?from=N`
    Bytes as text; `{"from", "to", "rows", "more"}`.
`POST runs/ID/cancel`, `POST runs/ID/fetch` `{"to"?, "checkpoints"?}`, `POST runs/ID/resubmit`, `POST hosts/refresh`
    `{"task": ID}` at once; `to` is a path below the server's folder.
`GET tasks/ID`
    `{"done", "message", "error", "progress": {"done", "total"} | null, "result": {"path"} | {"run"}}`.
`GET hosts`
    `{"hosts": [as theseus hosts --cached --json], "inventory", "now"}`.
`GET doctor`
    As `theseus doctor --json`; it takes seconds.
`POST recipes/open` `{"path"}`
    `{"notebook": text}`: the cell that makes a saved recipe again.
`POST cells/complete` `{"cell", "offset"}`, `POST cells/check` `{"cell"}`, `POST cells/hover` `{"cell", "offset"}`
    See `theseus.lab.cells`. Offsets count UTF-16 units.
"""

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
