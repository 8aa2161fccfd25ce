"""A model fills in what the policies leave open, for its own containers and for nobody else's."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.cli.main import app
from components.pullpiri.places import ModelError
from components.pullpiri.policies import with_models
from components.settings import PolicySettings, Settings, load_settings
from schemas.limits import Limits
from tests.pullpiri.garage import NAVIGATION, model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "navigation.yaml").write_text(NAVIGATION, encoding="utf-8")
    return folder


def policy(folder: Path, workload: str, *policies: dict[str, Any], **pullpiri: Any) -> PolicySettings:
    settings = Settings.model_validate({"policy": policies, "pullpiri": {"models": [str(folder)], **pullpiri}})
    return with_models(settings).policy_of(workload)


def test_limits_are_the_baseline_and_requests_the_least(folder: Path) -> None:
    found = policy(folder, "navigation_router")
    assert found.baseline.limits == Limits(cpu_limit=2000, memory_limit=1024)
    assert found.min.limits == Limits(cpu_limit=500, memory_limit=256)
    assert found.max.limits == Limits()


def test_the_maximum_is_the_limit_times_a_factor_where_one_is_configured(folder: Path) -> None:
    found = policy(folder, "navigation_router", max_factor=1.5)
    assert found.max.limits == Limits(cpu_limit=3000, memory_limit=1536)
    assert policy(folder, "navigation_map", max_factor=4).max.limits == Limits(memory_limit=2048)


def test_what_a_policy_says_stands(folder: Path) -> None:
    said = {
        "workload": "navigation*",
        "factor": 3,
        "baseline": {"cpu": "1"},
        "min": {"memory": "300Mi"},
        "max": {"cpu": "8"},
    }
    found = policy(folder, "navigation_router", said, max_factor=2)
    assert found.factor == 3
    assert found.baseline.limits == Limits(cpu_limit=1000, memory_limit=1024)
    assert found.min.limits == Limits(cpu_limit=500, memory_limit=300)
    assert found.max.limits == Limits(cpu_limit=8000, memory_limit=2048)


def test_the_least_is_never_above_the_most(folder: Path) -> None:
    found = policy(folder, "navigation_router", {"max": {"cpu": "400m"}})
    assert (found.min.cpu, found.max.cpu) == (400, 400)


def test_others_keep_their_policy(folder: Path) -> None:
    said = {"workload": "nav*", "factor": 5}
    assert policy(folder, "navigation", said).factor == 5
    assert policy(folder, "navigation", said).baseline.limits == Limits()
    assert policy(folder, "radio", said) == PolicySettings()


def test_without_models_nothing_changes() -> None:
    settings = Settings()
    assert with_models(settings) is settings


def test_policy_manager_and_resource_manager_refuse_to_start_with_a_wrong_model(folder: Path) -> None:
    (folder / "radio.yaml").write_text(model("{cpu: fast}"), encoding="utf-8")
    configuration = folder.parent / "piriscale.toml"
    configuration.write_text(f"[broker]\nurl = 'mqtt://127.0.0.1:1'\n[pullpiri]\nmodels = ['{folder}']\n", "utf-8")
    for component in ("policy_manager", "resource_manager"):
        result = CliRunner().invoke(app, ["run", component, "-c", str(configuration)])
        assert result.exit_code == 1
        assert "radio.yaml:10: spec.containers[0].resources.limits.cpu: 'fast' is no CPU quantity" in result.stderr


def test_an_agent_needs_no_models(folder: Path) -> None:
    configuration = folder.parent / "piriscale.toml"
    configuration.write_text("[pullpiri]\nmodels = ['/on/the/control/plane/only']\n", "utf-8")
    assert load_settings(configuration).pullpiri.models == (Path("/on/the/control/plane/only"),)
    with pytest.raises(ModelError):
        with_models(load_settings(configuration))
