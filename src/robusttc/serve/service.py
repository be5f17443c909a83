"""What the routes do: predictions through the batcher, and changes of the run one after the other."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from fastapi.exceptions import RequestValidationError

from robusttc.data import Task, read_examples
from robusttc.errors import DataError, ProblemsError, UnknownTaskError, UsageError
from robusttc.fewshot import FewShotModel, NearestExample
from robusttc.models import check_threshold, pick_labels
from robusttc.run import BusyError, Run
from robusttc.run.updates import PendingChangeError, restore_task, retire_tasks
from robusttc.serve import schemas
from robusttc.serve.batching import Batcher
from robusttc.serve.settings import ServeSettings
from robusttc.serve.tenants import Answer, ServedRun, Tenant, Tenants, support_accuracy, task_id
from robusttc.version import __version__

__all__ = ["ConflictError", "Service"]

PROBE = "Where is my parcel?"
BUSY_SECONDS = 5.0  # how long a change waits for another process that changes the run
N_NEAREST = 8
LEAST_SIMILARITY = 0.05
Result = TypeVar("Result")


class ConflictError(Exception):
    """A change that does not fit the state of the run."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


def refuse(field: str, message: str) -> RequestValidationError:
    """Return the error of a request with a wrong field."""
    return RequestValidationError(
        [{"loc": ("body", *field.split(".")), "msg": message, "type": "value_error"}]
    )


class Service:
    """Answers the requests of one process.

    Parameters
    ----------
    served
        The run.
    batcher
        What predicts.
    settings
        The limits.
    """

    def __init__(self, served: ServedRun, batcher: Batcher, settings: ServeSettings) -> None:
        self.served, self.batcher, self.settings = served, batcher, settings
        self._changes = ThreadPoolExecutor(1, thread_name_prefix="changes")
        self._reads = ThreadPoolExecutor(2, thread_name_prefix="reads")
        self._failed: dict[int, str] = {}  # why removals failed, by the version that announced them
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Let the change that is under way come to its end."""
        await asyncio.to_thread(self._changes.shutdown, wait=True)
        self._reads.shutdown(wait=False, cancel_futures=True)

    @property
    def tenants(self) -> Tenants:
        """The version of the run that answers."""
        return self.served.tenants

    async def catch_up(self) -> None:
        """Serve the version that is current on disk; in a thread where there is something to load."""
        if self.served.is_behind():
            await asyncio.to_thread(self.served.refresh)

    # Predictions.

    async def probe(self) -> None:
        """Predict one text ahead of the queue."""
        for task in self.tenants.by_id:
            await self.batcher.submit(task, [PROBE], ahead=True)
            return

    async def predict(self, task: str, questions: schemas.Questions) -> schemas.Answers:
        """Predict texts of one task."""
        self.tenants.find(task)
        texts, cut = self._check_texts(questions.texts, "texts", truncate=questions.truncate)
        answers: list[Answer] = await self.batcher.submit(task, texts)
        predictions = await self._show(answers, questions, cut)
        return schemas.Answers(task=task, version=answers[0].version, predictions=predictions)

    async def predict_rows(self, questions: schemas.MixedQuestions) -> schemas.MixedAnswers:
        """Predict texts of several tasks."""
        tenants = self.tenants
        places: dict[str, list[int]] = {}
        for number, row in enumerate(questions.rows):
            tenants.find(row.task)
            places.setdefault(row.task, []).append(number)
        texts, cut = self._check_texts(
            [row.text for row in questions.rows], "rows", truncate=questions.truncate
        )
        calls = [self.batcher.submit(task, [texts[n] for n in rows]) for task, rows in places.items()]
        found: dict[int, Answer] = {}
        for rows, answers in zip(places.values(), await asyncio.gather(*calls), strict=True):
            found.update(zip(rows, answers, strict=True))
        answers = [found[number] for number in range(len(texts))]
        shown = await self._show(answers, questions, cut)
        return schemas.MixedAnswers(
            predictions=[
                schemas.MixedPrediction(**dict(one), task=row.task, version=answer.version)
                for one, row, answer in zip(shown, questions.rows, answers, strict=True)
            ]
        )

    async def explain(self, task: str, question: schemas.Question) -> schemas.Explanation:
        """Return what each model of a task says of a text, and its nearest examples."""
        tenants = self.tenants
        tenant = tenants.find(task)
        texts, cut = self._check_texts([question.text], "text", truncate=question.truncate)
        answers: list[Answer] = await self.batcher.submit(task, texts)
        shown = await self._show(answers, question, cut)
        answer = answers[0]
        predictor = tenants.run.predictor(tenant.name)
        parts = await self._read(lambda: predictor.components(texts[0]))
        nearest = await self._read(lambda: answer.prediction.nearest[answer.row])
        return schemas.Explanation(
            task=task,
            prediction=shown[0],
            models=[
                schemas.ModelSays(
                    model=one.name,
                    weight=one.weight,
                    probabilities=dict(
                        zip(predictor.label_names, one.probabilities[0].tolist(), strict=True)
                    ),
                )
                for one in parts
            ],
            nearest_example=schemas.NearestExample(**asdict(nearest)),
        )

    def _check_texts(
        self, texts: Sequence[str], field: str, *, truncate: bool
    ) -> tuple[list[str], list[bool]]:
        """Refuse too many texts, or one that is too long where it may not be cut."""
        limit, longest = self.settings.max_texts, self.settings.max_characters
        if len(texts) > limit:
            raise refuse(field, f"{len(texts):,} texts are more than {limit:,}")
        cut = [len(text) > longest for text in texts]
        if any(cut) and not truncate:
            raise ConflictError(
                413,
                f"{field}.{cut.index(True)} has over {longest:,} characters: ask with truncate to cut it",
            )
        return [text[:longest] for text in texts], cut

    async def _show(
        self, answers: Sequence[Answer], options: schemas.Options, cut: Sequence[bool]
    ) -> list[schemas.Prediction]:
        """Return answers as the API has them."""
        nearest = {}
        if options.nearest:
            nearest = await self._read(
                lambda: {place: one.prediction.nearest[one.row] for place, one in enumerate(answers)}
            )
        return [
            show_answer(answer, options, was_cut, nearest.get(place))
            for place, (answer, was_cut) in enumerate(zip(answers, cut, strict=True))
        ]

    async def _read(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._reads, work)

    # What is served.

    def list_tasks(self, search: str, offset: int, limit: int) -> schemas.TaskPage:
        """Return a page of the tasks whose name has a part."""
        tenants, part = self.tenants, search.casefold()
        found = [one for one in tenants.by_id.values() if part in one.name.casefold()]
        shown = [summarise(tenants, one) for one in found[offset : offset + limit]]
        end = offset + limit
        return schemas.TaskPage(tasks=shown, total=len(found), next=end if end < len(found) else None)

    def show_task(self, task: str, *, for_admin: bool) -> schemas.TaskDetails:
        """Return what is known of a task; its cluster tells of others, so it is for the admin."""
        tenants = self.tenants
        tenant = tenants.find(task)
        run, summary = tenants.run, summarise(tenants, tenant)
        if not for_admin:
            summary.cluster = None
        figures = tenants.figures.get(tenant.name)
        served = tenants.accuracy(tenant)
        novel = None if figures is None else figures.novel.get("served")
        facts = run.predictor(tenant.name)
        return schemas.TaskDetails(
            **dict(summary),
            labels=list(facts.label_names),
            interval=None if served is None else (served.low, served.high),
            novel_accuracy=None if novel is None else novel.mean,
            temperature=facts.temperature,
            n_rows=tenants.n_rows(tenant),
        )

    def list_clusters(self) -> schemas.Clusters:
        """Return the clusters of the run."""
        tenants = self.tenants
        members: dict[int, list[str]] = {}
        for one in tenants.by_id.values():
            cluster = tenants.run.clusters.get(one.name, -1)
            if cluster >= 0:
                members.setdefault(cluster, []).append(one.id)
        verdict = tenants.run.verdict
        return schemas.Clusters(
            clusters=[schemas.ClusterSummary(cluster=n, tasks=members[n]) for n in sorted(members)],
            verdict=None if verdict is None else str(verdict["sentence"]),
        )

    def info(self) -> schemas.Info:
        """Return what the server is."""
        tenants = self.tenants
        limits = self.settings.model_dump(
            include={name for name in type(self.settings).model_fields if "max_" in name}
        )
        return schemas.Info(
            robusttc=__version__,
            run_version=tenants.version,
            n_tasks=len(tenants.by_id),
            bytes_a_task=tenants.n_bytes / max(len(tenants.by_id), 1),
            limits={**limits, "request_seconds": self.settings.request_seconds},
            microseconds_a_text=self.batcher.microseconds_a_text,
        )

    def find_nearest(self, task: str) -> list[dict[str, object]]:
        """Return the tasks that are most similar to one."""
        tenants = self.tenants
        tenant = tenants.find(task)
        run, similarity = tenants.run, tenants.run.similarity
        if tenant.kind == "adapted":
            pairs = [*run.adapted_model(tenant.name).nearest_tasks_]
        elif similarity is None or tenant.name not in similarity.task_names:
            return []
        else:
            row = similarity.row(tenant.name)
            pairs = [
                (similarity.task_names[place], float(row[place]))
                for place in (-row).argsort(kind="stable")[: N_NEAREST + 1]
                if similarity.task_names[place] != tenant.name and row[place] > LEAST_SIMILARITY
            ]
        known = {one.name for one in tenants.by_id.values()}
        return [
            {"task": task_id(name), "name": name, "similarity": value}
            for name, value in pairs[:N_NEAREST]
            if name in known
        ]

    async def list_conflicts(self, task: str) -> schemas.Conflicts:
        """Return which labels of a task conflict with those of similar tasks."""
        tenants = self.tenants
        tenant = tenants.find(task)
        if tenant.kind == "adapted":
            return schemas.Conflicts(task=task, sentences=[])
        found = await self._read(lambda: tenants.run.explain(tenant.name))
        conflicts = () if found.labels is None else found.labels.conflicts
        return schemas.Conflicts(task=task, sentences=[one.sentence for one in conflicts])

    async def read_rows(self, table: schemas.TableText) -> schemas.ReadRows:
        """Read a table of examples."""
        return await self._read(lambda: read_table(table.content))

    # Changes of the run.

    async def put_task(
        self, task: str, examples: schemas.Examples, version: int | None
    ) -> tuple[schemas.Adapted, bool]:
        """Learn a task from examples."""
        self._check_examples(examples.examples)

        def change(run: Run, tenant: Tenant | None) -> tuple[schemas.Adapted, bool]:
            if tenant is not None and tenant.kind != "adapted":
                raise ConflictError(409, "the task has a model of its own from all its rows: remove it first")
            name = tenant.name if tenant is not None else task
            return self._adapt(run, name, task, examples.examples), tenant is None

        return await self._change(task, version, change)

    async def add_examples(
        self, task: str, examples: schemas.Examples, version: int | None
    ) -> schemas.Adapted:
        """Learn a task from the examples that it has and more."""

        def change(run: Run, tenant: Tenant | None) -> schemas.Adapted:
            if tenant is None:
                raise UnknownTaskError(task, ())
            if tenant.kind != "adapted":
                raise ConflictError(409, "the task was not learned from examples")
            kept = run.examples_of(tenant.name)
            pairs = dict(zip(kept.texts, kept.labels.tolist(), strict=True))
            pairs.update((one.text, one.label) for one in examples.examples)
            together = [schemas.Example(text=text, label=label) for text, label in pairs.items()]
            self._check_examples(together)
            return self._adapt(run, tenant.name, task, together)

        return await self._change(task, version, change)

    async def delete_task(self, task: str, version: int | None) -> schemas.JobState | None:
        """Remove a task; return the job that retrains the models of others, if there are any."""

        def change(run: Run, tenant: Tenant | None) -> bool:
            if tenant is None:
                raise UnknownTaskError(task, ())
            if tenant.kind == "adapted":
                run.remove([tenant.name], progress=None)
                return True
            retire_tasks(run, [tenant.name])
            return False

        if await self._change(task, version, change):
            return None
        return self.finish_removals()

    def finish_removals(self) -> schemas.JobState | None:
        """Begin to train the models of others without the tasks that no longer answer, if there are any."""
        tenants = self.tenants
        retired = [change for change in tenants.run.history if change.kind == "retire"]
        if not tenants.run.retired or not retired:
            return None
        job = retired[-1].version

        async def run_job() -> None:
            try:
                await asyncio.get_running_loop().run_in_executor(self._changes, self._remove_retired)
            except Exception as error:
                self._failed[job] = str(error)

        running = asyncio.get_running_loop().create_task(run_job())
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return self.show_job(f"{job:016x}")

    def _remove_retired(self) -> None:
        run = self.served.copy().reload()
        if run.retired:
            run.remove(run.retired, progress=None)

    def show_job(self, job: str) -> schemas.JobState:
        """Return how far the removal is that the id stands for; the run itself knows, whoever asks."""
        run = self.tenants.run
        for change in run.history:
            if change.kind == "retire" and f"{change.version:016x}" == job:
                break
        else:
            raise ConflictError(404, "there is no such job")
        if not set(change.tasks) & {*run.retired}:
            return schemas.JobState(id=job, state="done", detail="the models no longer know the task")
        if change.version in self._failed:
            detail = f"it is begun again when the server starts: {self._failed[change.version]}"
            return schemas.JobState(id=job, state="failed", detail=detail)
        return schemas.JobState(
            id=job, state="running", detail="the models of other tasks are trained without it"
        )

    async def roll_back(self, task: str, wanted: int, version: int | None) -> schemas.TaskVersions:
        """Let an earlier version of an adapted task answer."""

        def change(run: Run, tenant: Tenant | None) -> None:
            if tenant is None:
                raise UnknownTaskError(task, ())
            restore_task(run, tenant.name, wanted)

        await self._change(task, version, change)
        return self.list_versions(task)

    def list_versions(self, task: str) -> schemas.TaskVersions:
        """Return the versions of a task that can be served."""
        tenants = self.tenants
        tenant = tenants.find(task)
        versions = [
            schemas.TaskVersion(
                version=change.version,
                made=datetime.fromtimestamp(change.when, UTC).isoformat(timespec="seconds"),
                what=change.kind,
            )
            for change in tenants.run.history
            if tenant.name in change.tasks or (change.kind == "fit" and tenant.kind == "fitted")
        ]
        return schemas.TaskVersions(task=task, current=tenant.version, versions=versions)

    def _check_examples(self, examples: Sequence[schemas.Example]) -> None:
        limit, longest = self.settings.max_examples, self.settings.max_characters
        if len(examples) > limit:
            raise refuse("examples", f"{len(examples):,} examples are more than {limit:,}")
        for number, one in enumerate(examples):
            if len(one.text) > longest:
                raise refuse(f"examples.{number}.text", f"the text has more than {longest:,} characters")

    def _adapt(self, run: Run, name: str, task: str, examples: Sequence[schemas.Example]) -> schemas.Adapted:
        try:
            rows = Task(name, [one.text for one in examples], [one.label for one in examples])
            model = run.adapt(rows, replace=True)
        except (DataError, UsageError) as error:
            raise refuse("examples", str(error)) from error
        return show_adapted(model, task, run.version.number, len(examples))

    async def _change(
        self, task: str, version: int | None, change: Callable[[Run, Tenant | None], Result]
    ) -> Result:
        """Change the run in the one thread that does, and serve what came of it before this returns."""

        def work() -> Result:
            tenants = self.served.refresh()
            tenant = tenants.by_id.get(task)
            if version is not None and (tenant is None or tenant.version != version):
                found = (
                    "there is no such task" if tenant is None else f"the task has version {tenant.version}"
                )
                raise ConflictError(412, found)
            try:
                result = change(self.served.copy(), tenant)
            finally:
                self.served.refresh()
            return result

        if self._running:
            raise ConflictError(503, "a removal is under way", {"Retry-After": "30"})
        loop, end = asyncio.get_running_loop(), asyncio.get_running_loop().time() + BUSY_SECONDS
        while True:
            try:
                # A change that has begun comes to its end, also where nobody waits for it any longer.
                return await asyncio.shield(loop.run_in_executor(self._changes, work))
            except (BusyError, PendingChangeError):
                if loop.time() > end:
                    raise ConflictError(503, "another change is under way", {"Retry-After": "5"}) from None
                await asyncio.sleep(0.1)


def read_table(content: str) -> schemas.ReadRows:
    """Read a table of examples as any file of them is read."""
    with tempfile.TemporaryDirectory() as folder:  # readable by its owner alone
        file = Path(folder) / "rows.csv"
        file.write_text(content, encoding="utf-8", newline="")
        try:
            [task] = read_examples(file, "rows").tasks
        except ProblemsError as error:
            problems = [str(replace(one, path="the table")) for one in error.problems]
            return schemas.ReadRows(examples=[], labels={}, problems=problems)
        except DataError as error:
            return schemas.ReadRows(examples=[], labels={}, problems=[error.what])
    labels = task.labels.tolist()
    examples = [
        schemas.Example(text=text, label=label) for text, label in zip(task.texts, labels, strict=True)
    ]
    return schemas.ReadRows(examples=examples, labels=dict(Counter(labels).most_common()), problems=[])


def show_answer(
    answer: Answer, options: schemas.Options, was_cut: bool, nearest: NearestExample | None
) -> schemas.Prediction:
    """Return an answer as the API has it."""
    found, row = answer.prediction, answer.row
    shares = found.probabilities[row]
    order = (-shares).argsort(kind="stable")[: options.top_k]
    label = pick_labels(shares[None, :], found.label_names, threshold=check_threshold(options.abstain_below))[
        0
    ]
    scope = None if found.out_of_scope is None else float(found.out_of_scope[row])
    return schemas.Prediction(
        label=label,
        probability=float(shares.max()),
        probabilities={found.label_names[k]: float(shares[k]) for k in order},
        abstained=label is None,
        in_scope=None if scope is None else bool(found.in_scope[row]),
        out_of_scope=scope,
        nearest_example=None if nearest is None else schemas.NearestExample(**asdict(nearest)),
        truncated=was_cut,
    )


def show_adapted(model: FewShotModel, task: str, version: int, n_examples: int) -> schemas.Adapted:
    """Return what came of examples as the API has it."""
    accuracy = support_accuracy(model)
    return schemas.Adapted(
        task=task,
        version=version,
        n_examples=n_examples,
        labels=list(model.label_names),
        expected_accuracy=None if accuracy is None else accuracy.mean,
        interval=None if accuracy is None else (accuracy.low, accuracy.high),
        weights={str(cluster): weight for cluster, weight in model.weights_.items()},
        nearest_tasks=[
            schemas.Nearest(task=task_id(name), similarity=value) for name, value in model.nearest_tasks_
        ],
        fits_a_cluster=not model.out_of_cluster_,
    )


def summarise(tenants: Tenants, tenant: Tenant) -> schemas.TaskSummary:
    """Return a task as a list has it."""
    accuracy = tenants.accuracy(tenant)
    cluster = tenants.run.clusters.get(tenant.name, -1)
    return schemas.TaskSummary(
        task=tenant.id,
        name=tenant.name,
        kind=tenant.kind,
        n_labels=len(tenants.run.predictor(tenant.name).label_names),
        cluster=cluster if cluster >= 0 else None,
        accuracy=None if accuracy is None else accuracy.mean,
        version=tenant.version,
    )
