"""Models of Pullpiri are read as they are written, and a mistake in one is shown with its place."""

import logging
import os
from pathlib import Path

import pytest

from components.pullpiri.models import Described, read_models
from components.pullpiri.places import ModelError
from tests.pullpiri.garage import NAVIGATION, POD, model


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "models.yaml"


def read(file: Path, text: str) -> dict[str, Described]:
    file.write_text(text, encoding="utf-8")
    return read_models([file])


def cpu_and_memory(described: Described) -> tuple[int | None, int | None]:
    return described.limits.cpu, described.limits.memory


def test_every_container_of_a_model_is_a_workload_with_its_limits(file: Path) -> None:
    found = read(file, NAVIGATION)
    assert list(found) == ["navigation_router", "navigation_map"]
    assert cpu_and_memory(found["navigation_router"]) == (2000, 1024)
    assert cpu_and_memory(found["navigation_map"]) == (None, 512)
    router = found["navigation_router"].requests
    assert (router.cpu, router.memory) == (500, 256)
    line = NAVIGATION[: NAVIGATION.index("name: router")].count("\n") + 1
    assert found["navigation_router"].place == f"{file}:{line}"


def test_what_the_node_agent_wrote_down_is_read_too(file: Path) -> None:
    assert cpu_and_memory(read(file, POD)["radio_tuner"]) == (1000, 122)


@pytest.mark.parametrize(
    ("written", "millicores"),
    [('"3"', 3000), ("3", 3000), ("0.5", 500), ('"500m"', 500), ("1500m", 1500), ("1.25", 1250), ("null", None)],
)
def test_cpu_is_cores_or_millicores(file: Path, written: str, millicores: int | None) -> None:
    assert read(file, model(f"{{cpu: {written}}}"))["radio_tuner"].limits.cpu == millicores


@pytest.mark.parametrize(
    ("written", "mib"),
    [
        ('"1Gi"', 1024),
        ("512Mi", 512),
        ("131072Ki", 128),
        ("1G", 953),
        ("500M", 476),
        ("2000000K", 1907),
        ("268435456", 256),
        ("1.5Gi", 1536),
    ],
)
def test_memory_has_suffixes_or_is_bytes(file: Path, written: str, mib: int) -> None:
    assert read(file, model(f"{{memory: {written}}}"))["radio_tuner"].limits.memory == mib


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("{cpu: fast}", "spec.containers[0].resources.limits.cpu: 'fast' is no CPU quantity"),
        ("{cpu: 0.0001}", "limits.cpu: '0.0001' is finer than a millicore"),
        ("{cpu: 5m}", "limits.cpu: this is 5m, at least 10m are needed"),
        ("{cpu: -1}", "limits.cpu: '-1' is no CPU quantity"),
        ("{cpu: [1]}", "limits.cpu: a text or number is needed"),
        ("{memory: 12Gb}", "limits.memory: '12Gb' is no memory quantity; write 512Mi, 2Gi, 500M or bytes"),
        ("{memory: 64}", "limits.memory: '64' is less than 1 MiB"),
        ("many", "resources.limits: a map is needed"),
        ('{cpu: "1", cpu: "2"}', "limits.cpu: stands here for the second time"),
    ],
)
def test_a_wrong_quantity_is_shown_with_file_line_and_field(file: Path, limits: str, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(file, model(limits))
    assert str(caught.value).startswith(f"{file}:10: ")
    assert told in str(caught.value)


def test_more_requested_than_allowed_is_a_mistake(file: Path) -> None:
    with pytest.raises(ModelError, match=r"requests\.cpu 2000m is above limits\.cpu 1000m"):
        read(file, model("{cpu: 1}", requests="{cpu: 2}"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Model\nspec: {containers: []}\n", "document: metadata is missing"),
        ("kind: Model\nmetadata: {name: a}\n", "document: spec is missing"),
        ("kind: Model\nmetadata: {}\n", "metadata: name is missing"),
        ("kind: Model\nmetadata: {name: a}\nspec: {}\n", "spec: containers is missing"),
        ("kind: Model\nmetadata: {name: a}\nspec: {containers: {b: 1}}\n", "spec.containers: a list is needed"),
        ("kind: Model\nmetadata: {name: a}\nspec: {containers: [{image: x}]}\n", "[0]: name is missing"),
        (
            "kind: Model\nmetadata: {name: a}\nspec: {containers: [{name: b/c}]}\n",
            "'a_b/c' cannot be a workload's name",
        ),
        ("kind: [\n", "no YAML"),
        ("a: !!python/object/apply:os.system [exit]\nb: *nothing\n", "no YAML"),
    ],
)
def test_a_model_that_is_none_says_what_it_lacks(file: Path, text: str, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(file, text)
    assert str(caught.value).startswith(str(file))
    assert told in str(caught.value)


def test_whatever_describes_no_containers_is_left_alone(file: Path) -> None:
    assert read(file, "# nothing\n---\n- a list\n---\nkind: Scenario\n---\nname: no kind\n") == {}


def test_a_folder_is_read_with_all_below_and_only_its_yaml(tmp_path: Path) -> None:
    (tmp_path / "vehicle" / "head-unit").mkdir(parents=True)
    (tmp_path / "vehicle" / "navigation.yaml").write_text(NAVIGATION, encoding="utf-8")
    (tmp_path / "vehicle" / "head-unit" / "radio.yml").write_text(POD, encoding="utf-8")
    (tmp_path / "vehicle" / "notes.txt").write_text("no: [yaml", encoding="utf-8")
    assert set(read_models([tmp_path])) == {"navigation_router", "navigation_map", "radio_tuner"}


def test_the_same_model_may_be_there_twice_but_not_another_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(POD, encoding="utf-8")
    assert set(read_models([tmp_path])) == {"radio_tuner"}
    (tmp_path / "b.yaml").write_text(POD.replace("'1'", "'2'"), encoding="utf-8")
    with pytest.raises(ModelError, match=r"b\.yaml:\d+: radio_tuner is described differently at .*a\.yaml:\d+"):
        read_models([tmp_path])


def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file or folder"):
        read_models([tmp_path / "missing"])


def test_a_huge_file_is_not_read(file: Path) -> None:
    with pytest.raises(ModelError, match="more than 65536 bytes"):
        read(file, "#" * (64 * 1024 + 1))


def test_a_pipe_that_nobody_writes_is_no_model(tmp_path: Path) -> None:
    pipe = tmp_path / "model.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="neither a file nor a folder"):
        read_models([pipe])


@pytest.mark.parametrize("limits", ["{cpu: 500m}", "{memory: 1.5Gi}", "{memory: 1Ti}"])
def test_what_pullpiri_itself_does_not_understand_is_told(
    file: Path, caplog: pytest.LogCaptureFixture, limits: str
) -> None:
    with caplog.at_level(logging.WARNING):
        read(file, model(limits))
    assert "sets no such limit" in caplog.text


def test_what_pullpiri_understands_is_read_without_a_word(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    read(file, NAVIGATION + "---\n" + model("{cpu: '1.5', memory: 512M}"))
    assert caplog.text == ""
