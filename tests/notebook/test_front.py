"""A widget's module arrives as one text: what it imports is in front of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from theseus.notebook import front


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(front, "files", lambda package: tmp_path)
    front.esm.cache_clear()
    (tmp_path / "static").mkdir()
    return tmp_path / "static"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node to run the module")
def test_a_module_runs_with_all_that_it_imports_each_once_and_in_its_own_scope(
    static: Path, tmp_path: Path
) -> None:
    (static / "low.js").write_text("let count = 0;\nexport function next() { return ++count; }\n")
    (static / "mid-dle.js").write_text(
        'import { next } from "./low.js";\nconst count = 10;\n'
        "export const more = () => count + next();\n"
    )
    (static / "top.js").write_text(
        'import {\n  next as step,\n} from "./low.js";\nimport { more } from "./mid-dle.js";\n'
        "const count = 'own';\nexport default { said: [step(), more(), count] };\n"
    )
    (tmp_path / "joined.mjs").write_text(front.esm("top"))
    program = "import('./joined.mjs').then(m => console.log(m.default.said.join()))"
    done = subprocess.run(
        ["node", "-e", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1,12,own\n"


@pytest.mark.parametrize(
    "line",
    [
        'import x from "./low.js";',
        'import * as low from "./low.js";',
        'import "./low.js";',
        'import { a } from "elsewhere";',
        "export { next };",
        'export * from "./low.js";',
    ],
)
def test_another_form_of_import_or_export_is_refused(static: Path, line: str) -> None:
    (static / "low.js").write_text("export const a = 1;\n")
    (static / "top.js").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"static/top\.js cannot be joined"):
        front.esm("top")


def test_modules_that_import_each_other_are_refused(static: Path) -> None:
    (static / "a.js").write_text('import { b } from "./b.js";\nexport const a = 1;\n')
    (static / "b.js").write_text('import { a } from "./a.js";\nexport const b = 1;\n')
    with pytest.raises(ValueError, match="a → b → a"):
        front.esm("a")
