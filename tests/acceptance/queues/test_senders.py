"""Our own senders as hosted applications: none as long as there is nothing to send."""

from functools import partial

from postroom.domain.messages.emails import Counts
from postroom.domain.messages.messages import Message
from postroom.wiring import Services
from tests.acceptance.harness import Postroom, SumChecker, fill, schedule
from tests.acceptance.hosting import Hosting
from tests.services.mail.recording_smtp import RecordingSmtp
from tests.services.waiting import free_ports


async def test_senders_come_with_the_first_page_and_go_when_all_is_sent(
    hosting: Hosting, postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 1_500
    await fill(services, count)
    [port] = free_ports(1)
    postroom.settings |= {"sender_idle": "500ms", "port": str(port)}
    up = postroom.start("up")
    await hosting.until_status("/mail/send", lambda app: app.starts == 0, "is registered")
    message = await schedule(services)
    _, counts = await SumChecker(services, message).until_done(90)
    assert counts.accepted == count
    assert set(server.copies().values()) == {1}
    assert await services.subscriptions.subscribe("contoso1", "new@example.com")
    await hosting.until(lambda: len(server.copies()) == count + 1, "the confirmation is sent")
    for path in ("/mail/send", "/mail/confirm"):
        await hosting.until_status(path, lambda app: app.starts > 0, "was started")
        await hosting.until_status(path, lambda app: not app.processes, "has stopped")
    assert postroom.stop(up, 60) == 0


async def test_a_killed_host_takes_its_senders_along_and_the_next_one_settles_what_they_had(
    hosting: Hosting, postroom: Postroom, services: Services, server: RecordingSmtp
) -> None:
    count = 3_000
    await fill(services, count)
    postroom.start("scheduler")
    message = await schedule(services)
    checker = SumChecker(services, message)
    for done in (300, 1_500):
        host = postroom.start("host")
        await checker.until(partial(has_accepted, done), seconds=60, why="no progress")
        pids = [p.pid for app in await hosting.status("/mail/send") for p in app.processes]
        host.kill()
        host.wait()
        await hosting.until_gone(*pids)
    postroom.start("host")
    _, counts = await checker.until_done(90)
    assert counts.accepted == count


def has_accepted(least: int, message: Message, counts: Counts) -> bool:
    return counts.accepted >= least
