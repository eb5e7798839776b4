"""The flag --device, which is the same in every command."""

import argparse


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda, cuda:1, … (default: auto, a GPU if there is one)")
