"""The asyncio client, against the real server."""

import asyncio

import grpc
import pytest

import triage_client
from triage_client import AsyncTriageClient, TriageAction, evidence_state

SECONDS = 30.0
STATE = evidence_state(["fever"])


@pytest.fixture
def run(server):
    """Runs a coroutine function on a client of the server, or of another `address`."""

    def run(use, address=server.address, timeout_seconds=SECONDS):
        async def main():
            async with AsyncTriageClient(address, timeout_seconds=timeout_seconds) as client:
                return await use(client)

        return asyncio.run(main())

    return run


def test_calls_run_side_by_side_and_answer_as_the_sync_client(run, server):
    async def use(client):
        states = [evidence_state(["fever"]), evidence_state(["chest_pain"]), evidence_state(absent=["fever"])]
        return await asyncio.gather(
            client.batch_triage(states),
            *(client.triage(state) for state in states),
            client.model_info(),
            client.vocabulary(),
        )

    batch, *singles, info, vocabulary = run(use)
    with triage_client.TriageClient(server.address, timeout_seconds=SECONDS) as client:
        assert client.triage(STATE) == batch[0]
        assert (client.model_info(), client.vocabulary()) == (info, vocabulary)
    assert batch == singles
    assert [each.best_triage for each in batch[:2]] == [
        TriageAction.TRIAGE_ACTION_YELLOW,
        TriageAction.TRIAGE_ACTION_RED,
    ]


def test_each_call_names_its_model(run):
    async def use(client, model):
        async with client.interview(model=model) as interview:
            return await asyncio.gather(
                client.triage(STATE, model=model),
                client.batch_triage([STATE], model=model),
                client.model_info(model=model),
                client.vocabulary(model=model),
                interview.present("fever"),
                return_exceptions=True,
            )

    for refusal in run(lambda client: use(client, "adults")):
        assert isinstance(refusal, triage_client.NotFoundError)
        assert refusal.message == "no model 'adults': this server has triage"
    assert not any(isinstance(answer, Exception) for answer in run(lambda client: use(client, "triage")))


def test_an_interview_is_answered_on_all_that_was_said(run):
    async def use(client):
        async with client.interview(max_questions=2) as interview:
            said = [await interview.present("fever"), await interview.not_known(), await interview.absent("chest_pain")]
            with pytest.raises(ValueError, match="the interview has ended"):
                await interview.not_known()
            return said

    said = run(use)
    assert [each.questions_asked for each in said] == [0, 1, 2]
    assert [each.ended for each in said] == [False, False, True]
    assert said[-1].response.action == TriageAction.TRIAGE_ACTION_YELLOW


def test_an_interview_ends_when_no_more_is_known(run):
    async def use(client):
        async with client.interview() as interview:
            return [await interview.present("fever"), await interview.no_more_evidence()]

    assert [each.ended for each in run(use)] == [False, True]


def test_nothing_is_sent_after_the_end(run, scripted):
    async def use(client):
        async with client.interview() as interview:
            await interview.no_more_evidence()
            with pytest.raises(
                ValueError, match="the interview has ended"
            ):  # though this server's stream is still open
                await interview.present("fever")

    run(use, scripted[1])


@pytest.mark.parametrize("call", ["triage", "batch_triage", "interview"])
def test_a_wrong_code_is_an_invalid_argument_with_the_servers_words(run, call):
    async def use(client):
        if call == "interview":
            async with client.interview() as interview:
                await interview.present("fevr")
        state = evidence_state(["fevr"])
        await (client.triage(state) if call == "triage" else client.batch_triage([state]))

    with pytest.raises(triage_client.InvalidArgumentError, match="did you mean fever") as error:
        run(use)
    assert error.value.status is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("call", ["triage", "batch_triage", "model_info", "vocabulary", "interview"])
def test_every_call_has_the_clients_deadline(run, silent, call):
    async def use(client):
        if call == "interview":
            async with client.interview() as interview:  # which may take half an hour
                await interview.present("fever")
        calls = {
            "triage": lambda: client.triage(STATE),
            "batch_triage": lambda: client.batch_triage([STATE]),
            "model_info": client.model_info,
            "vocabulary": client.vocabulary,
        }
        await calls[call]()

    with pytest.raises(triage_client.DeadlineExceededError):
        run(use, silent, timeout_seconds=0.2)


def test_a_call_may_have_a_deadline_of_its_own(run, silent):
    async def use(client):
        await client.triage(STATE, timeout_seconds=0.2)

    with pytest.raises(triage_client.DeadlineExceededError):
        run(use, silent, timeout_seconds=500)


def test_a_task_that_is_cancelled_is_cancelled(run, silent):
    async def use(client):
        async with client.interview() as interview:
            task = asyncio.ensure_future(interview.present("fever"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(ValueError, match="the interview has ended"):
                await interview.present("fever")
        task = asyncio.ensure_future(client.triage(STATE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(use, silent)


@pytest.mark.parametrize("call", ["triage", "interview"])
def test_a_closed_client_says_so(server, call):
    async def use():
        client = AsyncTriageClient(server.address)
        await client.close()
        if call == "triage":
            await client.triage(STATE)
        client.interview()

    with pytest.raises(ValueError, match="closed"):
        asyncio.run(use())
