"""A management library of NVIDIA's for machines without one: a real shared library with nvml.h's
functions, which reads what it answers from a text file, one line a GPU:
`uuid,name,major,minor,total MiB,used MiB,SM MHz,throttle reasons,pid:MiB pid:MiB`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.native import find_compiler
from harness.targets import cuda, nvml

_SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
typedef unsigned long long ull;
struct Gpu { char uuid[96], name[96], processes[512]; int major, minor; ull total, used; unsigned mhz; ull reasons; };
static Gpu table[16];
static unsigned count;
static void load() {
  count = 0;
  FILE* file = fopen(getenv("FAKE_NVML"), "r");
  char line[1024];
  while (file && count < 16 && fgets(line, sizeof line, file)) {
    Gpu& g = table[count];
    g.processes[0] = 0;
    if (sscanf(line, "%95[^,],%95[^,],%d,%d,%llu,%llu,%u,%llu,%511[^\n]", g.uuid, g.name, &g.major, &g.minor, &g.total, &g.used,
               &g.mhz, &g.reasons, g.processes) >= 8) count++;
  }
  if (file) fclose(file);
}
struct Memory { unsigned version; ull total, reserved, free, used; };
struct Process { unsigned pid; ull used; unsigned gpu, compute; };
extern "C" {
int nvmlInit_v2() { return getenv("FAKE_NVML") ? 0 : 9; }
int nvmlDeviceGetCount_v2(unsigned* n) { load(); *n = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** h) { load(); *h = &table[i]; return i < count ? 0 : 2; }
int nvmlDeviceGetHandleByUUID(const char* u, void** h) {
  load();
  for (unsigned i = 0; i < count; i++) if (!strcmp(table[i].uuid, u)) { *h = &table[i]; return 0; }
  return 6;
}
int nvmlDeviceGetUUID(Gpu* g, char* b, unsigned n) { snprintf(b, n, "%s", g->uuid); return 0; }
int nvmlDeviceGetName(Gpu* g, char* b, unsigned n) { snprintf(b, n, "%s", g->name); return 0; }
int nvmlSystemGetDriverVersion(char* b, unsigned n) { snprintf(b, n, "1.2.3"); return 0; }
int nvmlDeviceGetCudaComputeCapability(Gpu* g, int* a, int* b) { *a = g->major; *b = g->minor; return 0; }
int nvmlDeviceGetMinorNumber(Gpu* g, unsigned* m) { *m = 7; return 0; }
int nvmlDeviceGetMemoryInfo_v2(Gpu* g, Memory* m) {
  if (m->version != (sizeof(Memory) | 2u << 24)) return 25;
  m->total = g->total << 20; m->used = g->used << 20; m->free = m->total - m->used; m->reserved = 0; return 0;
}
int nvmlDeviceGetClockInfo(Gpu* g, unsigned kind, unsigned* v) { *v = g->mhz; return kind == 1 ? 0 : 2; }
int nvmlDeviceGetTemperature(Gpu*, unsigned, unsigned* v) { *v = 41; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu* g, ull* v) { *v = g->reasons; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* g, unsigned* n, Process* p) {
  unsigned room = *n; *n = 0;
  char text[512]; strcpy(text, g->processes);
  for (char* t = strtok(text, " "); t; t = strtok(nullptr, " ")) {
    ull pid = 0; long long used = -1;
    sscanf(t, "%llu:%lld", &pid, &used);
    if (*n < room) { p[*n].pid = (unsigned)pid; p[*n].used = used < 0 ? ~0ull : (ull)used << 20; }
    ++*n;
  }
  return *n > room ? 7 : 0;
}
}
"""  # noqa: E501


@dataclass
class FakeNvml:
    """The library that KEVOLVE_NVML names while a test runs."""

    table: Path

    def show(self, *gpus: str) -> None:
        """What it answers from now on; see the module for the format of a line."""
        self.table.write_text("".join(f"{line}\n" for line in gpus))


def gpu(
    index: int,
    processes: str = "",
    *,
    name: str = "Fake 9000",
    arch: str = "9,0",
    mhz: int = 1980,
    reasons: int = 0,
) -> str:
    """A line of the table: 80 GiB, 1000 MiB of them in use."""
    return f"GPU-{index}{index}{index}-fake,{name},{arch},81920,1000,{mhz},{reasons},{processes}"


def _forget() -> None:
    nvml._library.cache_clear()
    cuda._gpu.cache_clear()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.cpp").write_text(_SOURCE)
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O0",
        "-o",
        str(folder / "libfake.so"),
        str(folder / "nvml.cpp"),
    ]
    subprocess.run(command, check=True)
    return folder / "libfake.so"


@pytest.fixture
def fake_nvml(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    table = tmp_path / "gpus"
    monkeypatch.setenv("KEVOLVE_NVML", str(built))
    monkeypatch.setenv("FAKE_NVML", str(table))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    _forget()
    yield FakeNvml(table)
    _forget()
