"""The native part: see the Python sources, which say what each value means."""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, final

__version__: str

_Time = Union[int, str]
_Path = Union[str, "os.PathLike[str]"]

@final
class Question:
    @property
    def parts(self) -> int: ...
    @staticmethod
    def interface(
        tasks: Sequence[Any],
        scheduler: str,
        supply: str,
        quantum: Optional[_Time],
        period: Optional[_Time],
        deadline: Optional[_Time],
        preemption: _Time,
        latency: _Time,
        sensitivity: bool,
        most: Optional[_Time],
    ) -> Question: ...
    @staticmethod
    def given(
        tasks: Sequence[Any], scheduler: str, resource: Any, aligned: bool, latency: _Time, sensitivity: bool
    ) -> Question: ...
    @staticmethod
    def vcpus(
        tasks: Sequence[Any],
        vcpus: Optional[int],
        period: Optional[_Time],
        quantum: Optional[_Time],
        latency: _Time,
    ) -> Question: ...
    @staticmethod
    def share(
        tasks: Sequence[Any],
        releases: Optional[str],
        period: Optional[_Time],
        max_period: Optional[_Time],
        margin: Any,
    ) -> Question: ...
    @staticmethod
    def plane(tasks: Sequence[Any], scheduler: str, start: Any, period: Optional[_Time], quantum: _Time) -> Question: ...
    @staticmethod
    def admission(
        servers: Sequence[Any],
        scheduler: str,
        aligned: bool,
        capacity: Any,
        cores: Optional[int],
        fit: Optional[str],
        sensitivity: bool,
    ) -> Question: ...
    @staticmethod
    def criticality(vms: Sequence[str], capacity: Any, cores: Optional[int]) -> Question: ...
    @staticmethod
    def response(
        rate: str,
        service: Optional[Sequence[Any]],
        measured_ns: Optional[Sequence[int]],
        batch: Sequence[Any],
        server: str,
        budget: _Time,
        period: _Time,
        at: Sequence[_Time],
        percentiles: Sequence[Any],
        slots: Optional[int],
        most: Optional[_Time],
    ) -> Question: ...
    @staticmethod
    def slo(
        rate: str,
        service: Optional[Sequence[Any]],
        measured_ns: Optional[Sequence[int]],
        batch: Sequence[Any],
        server: str,
        objectives: Sequence[Any],
        periods: Sequence[_Time],
        quantum: _Time,
    ) -> Question: ...
    @staticmethod
    def map(
        rate: str,
        service: Optional[Sequence[Any]],
        measured_ns: Optional[Sequence[int]],
        batch: Sequence[Any],
        server: str,
        percentiles: Sequence[Any],
        bandwidth: Optional[Tuple[Any, Any]],
        period: Optional[Tuple[_Time, _Time]],
        steps: int,
    ) -> Question: ...
    @staticmethod
    def packets(flows: Sequence[str], capacity: str, poll: int, latency: _Time) -> Question: ...
    @staticmethod
    def path(
        rate: Optional[str],
        burst: Optional[int],
        period: Optional[_Time],
        jitter: Optional[_Time],
        distance: Optional[_Time],
        stages: Sequence[str],
        also: Sequence[str],
        percentiles: Sequence[Any],
        at: Sequence[_Time],
    ) -> Question: ...
    @staticmethod
    def bucket(
        rate: str,
        batch: int,
        tokens: Optional[str],
        depth: Any,
        access: Any,
        split: int,
        percentiles: Sequence[Any],
    ) -> Question: ...
    @staticmethod
    def trace(arrivals_ns: Sequence[int], tokens: Optional[str], access: Any) -> Question: ...
    @staticmethod
    def recovery(
        servers: int,
        epochs: str,
        wait: Optional[_Time],
        leave: _Time,
        jitter: _Time,
        delay: _Time,
        message: _Time,
        recover: _Time,
        learner: _Time,
        write: _Time,
    ) -> Question: ...

def answer(question: Question, progress: Optional[Callable[[int], None]]) -> str: ...
def answers(
    questions: Sequence[Question], threads: int, progress: Optional[Callable[[int], None]]
) -> List[Union[str, Exception]]: ...
@final
class SiteData:
    @staticmethod
    def parse(name: str, text: str) -> SiteData: ...
    @staticmethod
    def read(path: _Path) -> SiteData: ...
    @property
    def text(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def hosts(self) -> List[Tuple[str, List[int]]]: ...
    @property
    def services(self) -> List[Tuple[str, str]]: ...

@final
class PlanData:
    @staticmethod
    def read(path: _Path) -> PlanData: ...
    def text(self) -> str: ...
    def page(self) -> str: ...
    def explain(self, name: str) -> str: ...
    def on(self, host: str) -> PlanData: ...
    @property
    def notes(self) -> List[str]: ...

def plan(
    site: SiteData,
    hostname: str,
    host: Optional[str],
    backend: Optional[str],
    latency: Optional[_Path],
    profiles: Optional[_Path],
    current: Optional[_Path],
    typical: bool,
    predicts: Optional[int],
) -> PlanData: ...
def profile(path: _Path) -> Tuple[List[int], List[int]]: ...
@final
class JobRecords:
    @property
    def __array_interface__(self) -> Dict[str, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __len__(self) -> int: ...

@final
class SliceRecords:
    @property
    def __array_interface__(self) -> Dict[str, Any]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __len__(self) -> int: ...

def simulate_plan(
    plan: PlanData,
    horizon: _Time,
    seed: int,
    seeds: int,
    compare: Sequence[str],
    execution_ns: Optional[Sequence[int]],
    transport_ns: Sequence[int],
    record: Optional[str],
    slices: bool,
) -> Tuple[str, Optional[Tuple[str, JobRecords, SliceRecords]]]: ...
@final
class SystemData:
    def __new__(cls, order_name: str, cores: int, tick: Optional[_Time], switch: _Time) -> SystemData: ...
    def server(
        self,
        kind_name: str,
        budget: _Time,
        period: _Time,
        priority: int,
        vcpus: int,
        first: _Time,
        tasks: Optional[Sequence[Any]],
        guest: str,
        execution_percent: Optional[int],
        execution_ns: Optional[Sequence[int]],
        releases: str,
    ) -> int: ...
    def simulate(
        self, horizon: _Time, seed: int, slices: bool, scheduler: Any
    ) -> Tuple[JobRecords, SliceRecords, List[Tuple[int, int]]]: ...

@final
class PoolData:
    def __new__(cls, order_name: str, cores: int) -> PoolData: ...
    def add(self, name: str, budget: _Time, period: _Time, priority: int, first: _Time, now: _Time) -> int: ...
    def add_mixed(
        self,
        optimistic: _Time,
        worst: Optional[_Time],
        period: _Time,
        virtual_deadline: _Time,
        first: _Time,
        now: _Time,
    ) -> int: ...
    def set(self, server: int, budget: _Time, period: _Time, priority: int, next_period: bool, now: _Time) -> None: ...
    def remove(self, server: int, now: _Time) -> int: ...
    def boost(self, server: int, until: _Time, now: _Time) -> None: ...
    def cooling(self, degrees: int, by_temperature: bool) -> None: ...
    def charge(self, core: int, ran: _Time, now: _Time) -> None: ...
    def owe(self, server: int, ran: _Time, now: _Time) -> None: ...
    def ready(self, server: int, is_ready: bool, now: _Time) -> None: ...
    def decide(self, now: _Time) -> Tuple[Optional[int], List[int]]: ...
    def running(self, core: int) -> Optional[int]: ...
    def payer(self, core: int) -> Optional[int]: ...
    def left_ns(self, server: int) -> int: ...
    def deadline_ns(self, server: int) -> Optional[int]: ...
    def boost_ns(self, server: int) -> int: ...
    def order(self, capacity: int) -> List[Tuple[int, bool, bool]]: ...
    def is_critical(self) -> bool: ...
    def copy(self) -> PoolData: ...

def kinds() -> List[str]: ...

_Fields = Tuple[int, int, int, Optional[int], int]

def time(given: Any) -> int: ...
def rate(given: Any) -> Tuple[int, int]: ...
def task(given: Any) -> _Fields: ...
def wasserstein(first: Any, second: Any) -> float: ...
def kolmogorov_smirnov(first: Any, second: Any) -> float: ...
def compare_two(first: Any, second: Any, seed: int) -> str: ...
def kept(promised: Sequence[Any], runs: Sequence[Any]) -> str: ...
def judge_claims(text: str, tables: Dict[str, str]) -> str: ...
def check_plan(plan: PlanData) -> Tuple[str, Optional[str]]: ...
def read_carts(path: _Path, unit_name: str) -> Dict[str, Any]: ...
def write_carts(path: _Path, unit_name: str, known: Dict[str, Tuple[int, int]]) -> str: ...
def read_rtapp_log(path: _Path) -> JobRecords: ...
def read_rtapp_config(path: _Path) -> List[Tuple[str, _Fields]]: ...
def job_records(release_ns: Any, finish_ns: Any) -> JobRecords: ...
def read_sched(path: _Path, thread: str) -> Tuple[JobRecords, List[int]]: ...
def settle() -> None: ...
