"""What brokers serve to Prometheus becomes rates, and nonsense becomes nothing."""

import socket
from threading import Thread

import pytest
from hightide_console.door import metrics_url, scraped
from hightide_console.scrapes import figures_between, scrape_of
from hightide_console.views.traffic import TrafficHistory, point_of
from unit.console.canned_cluster import survey

TEXT = """# HELP hightide_broker_sent_bytes_total batches
hightide_broker_sent_bytes_total{otel_scope_name="x"} 1000.0
hightide_broker_sent_records_total 10.0
hightide_broker_received_bytes_total NaN
rpc_server_call_duration_seconds_sum{rpc_method="hightide.v1.BrokerService/Produce"} 2.0
rpc_server_call_duration_seconds_count{rpc_method="hightide.v1.BrokerService/Produce"} 100.0
nonsense
"""


def test_two_scrapes_make_rates_and_mean_latencies() -> None:
    later = TEXT.replace("1000.0", "3000.0").replace("} 2.0", "} 2.5").replace("} 100.0", "} 150.0")
    figures = figures_between(scrape_of(TEXT, 10.0), scrape_of(later, 12.0))
    assert figures is not None
    assert (figures.sent_bytes, figures.sent_records, figures.received_bytes) == (1_000.0, 0.0, 0.0)
    assert figures.latencies_ms == {"hightide.v1.BrokerService/Produce": 10.0}


def test_a_server_that_was_started_anew_has_no_rates_yet() -> None:
    assert figures_between(scrape_of(TEXT, 10.0), scrape_of("", 12.0)) is None


def test_methods_are_bounded() -> None:
    text = "".join(
        f'rpc_server_call_duration_seconds_count{{rpc_method="m{each}"}} 1\n' for each in range(5_000)
    )
    assert len(scrape_of(text, 1.0).calls) == 100


def test_the_listener_is_found_beside_the_server() -> None:
    assert metrics_url("b1:9092", "0.0.0.0:9464") == "http://b1:9464/metrics"
    assert metrics_url("b1:9092", "127.0.0.1:9464") == "http://127.0.0.1:9464/metrics"
    assert [metrics_url("b1:9092", said) for said in ("", "9464", "h:", "h:0")] == [""] * 4


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 503 No\r\n\r\n", b""])
def test_what_answers_in_the_place_of_metrics_is_no_answer(said: bytes) -> None:
    """The console never asked the cluster again after one answer that was no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(said)

        server = Thread(target=answer)
        server.start()
        assert scraped(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics") is None
        server.join()


def test_what_goes_out_is_unknown_without_metrics() -> None:
    point = point_of(survey())
    assert (point.bytes_out, point.produce_ms) == (None, None)


def test_the_charts_remember_a_bounded_time() -> None:
    history = TrafficHistory()
    for number in range(1, 400):
        history.add(survey(number=number))
    assert {len(column) for column in history.columns()} == {300}
