"""``%load_ext trn3``: the magic ``%%nki_profile``, and names of cells in profiles and traces."""

from __future__ import annotations

from typing import Any

from trn3.nki.launch.observers import observing
from trn3.profile import Profile


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%nki_profile``, and let lines of cells be ``In[3]:5`` wherever they are named.

    ``%%nki_profile`` runs its cell and shows what each kernel launched there cost and why; with a
    name, ``%%nki_profile profiles``, the list of `trn3.profile.Profile` is kept under it. Lines are
    those of the cell as it stands.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        That which loads the extension.
    """

    def nki_profile(line: str, cell: str) -> None:
        from IPython.display import display

        name = line.strip()
        if name and not name.isidentifier():
            message = (
                f"%%nki_profile {name}: allowed: nothing, or a name to keep the profiles under"
            )
            raise ValueError(message)
        found: list[Profile] = []
        with observing(lambda launched: found.extend(launched.profiles())):
            # A line in place of the magic's own, so that numbers are those of the cell.
            shell.run_cell(f"# %%nki_profile\n{cell}")
        for profile in found:
            display(profile)  # type: ignore[no-untyped-call]
        if name:
            shell.user_ns[name] = found

    shell.register_magic_function(nki_profile, "cell")
    shell.compile.get_code_name = lambda _raw, _cell, number: f"In[{number}]"


def unload_ipython_extension(shell: Any) -> None:
    """Let cells have their own names again; the magic goes too."""
    del shell.compile.get_code_name
    del shell.magics_manager.magics["cell"]["nki_profile"]
