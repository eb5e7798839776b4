import torch

from foveal.deploy.measure.memory import peak

MEGABYTE = 2**20


def test_the_result_counts():
    assert MEGABYTE <= peak(lambda: torch.zeros(MEGABYTE // 4)) < 1.1 * MEGABYTE


def test_what_is_freed_on_the_way_counts_while_it_is_there():
    def job():
        for _ in range(3):
            large = torch.zeros(MEGABYTE)  # 4 megabytes, freed each time
            del large
        return torch.zeros(1)

    assert 4 * MEGABYTE <= peak(job) < 5 * MEGABYTE


def test_the_caches_of_the_first_call_do_not_count():
    kept = []

    def job():
        if not kept:
            kept.append(torch.zeros(MEGABYTE))

    assert peak(job) < MEGABYTE
