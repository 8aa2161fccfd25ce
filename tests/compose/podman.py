"""A private Podman for images of some size: with overlays where the kernel has them, since copies take minutes."""

import subprocess
from pathlib import Path

from components.node_agent.podman.private import PrivatePodman


class ImagePodman(PrivatePodman):
    """Has networks of its own, too, and keeps its layers as overlays if that works in its directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._driver = "overlay" if _overlays(directory / "trial") else "vfs"

    def _lay_out(self) -> None:
        super()._lay_out()
        lines = f'\n[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{self.directory}/networks"\n'
        with (self.directory / "containers.conf").open("a", encoding="utf-8") as configuration:
            configuration.write(lines)

    def _command(self, *arguments: str) -> list[str]:
        place = ["podman", "--root", str(self.directory / "root"), "--runroot", str(self.directory / "runroot")]
        return [*place, "--tmpdir", str(self.directory / "tmp"), "--storage-driver", self._driver, *arguments]


def _overlays(trial: Path) -> bool:
    for name in ("lower", "upper", "work", "merged"):
        (trial / name).mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", layers, str(trial / "merged")],
        capture_output=True,
        check=False,
    )
    if mounted.returncode == 0:
        subprocess.run(["umount", str(trial / "merged")], capture_output=True, check=True)
    return mounted.returncode == 0
