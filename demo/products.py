"""A made-up catalogue: the same products for the same seed, some of them entered twice in other words."""

from __future__ import annotations

import math
import unicodedata
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BRANDS = (
    "Haldén", "Nordlys", "Kestrel & Co", "Aurélie", "Brisa", "Tamarind", "Okabe", "Fjellheim", "Montévo",
    "Larkspur", "Quillon", "Vesper", "Rookwood", "Solène", "Ardent", "Bluefin", "Castellan", "Dunmore",
    "Eastgate", "Fenwick", "Garrow", "Hollis", "Isarco", "Jardine",
)  # fmt: skip
SERIES = (
    "Atlas", "Beacon", "Cadence", "Drift", "Ember", "Foundry", "Grove", "Harbour", "Iris", "Juniper",
    "Keystone", "Lumen", "Meridian", "Nimbus", "Orbit", "Prairie", "Quarry", "Ridge", "Summit", "Tidal",
)  # fmt: skip
COLOURS = (
    "Matte Black", "Snow White", "Sage Green", "Navy Blue", "Terracotta", "Sand", "Graphite", "Copper",
    "Brushed Steel", "Plum", "Mustard", "Charcoal",
)  # fmt: skip
KINDS = {
    "Gooseneck Kettle": ("600 ml", "800 ml", "1 l", "1.2 l", "1.5 l"),
    "Cast Iron Skillet": ("20 cm", "24 cm", "26 cm", "28 cm", "30 cm"),
    "Insulated Bottle": ("350 ml", "500 ml", "750 ml", "1 l", "1.5 l"),
    "Portable SSD": ("250 GB", "500 GB", "1 TB", "2 TB", "4 TB"),
    "LED Desk Lamp": ("5 W", "8 W", "10 W", "12 W", "15 W"),
    "USB-C Charger": ("20 W", "30 W", "45 W", "65 W", "100 W"),
    "Merino Blanket": ("100 x 150 cm", "130 x 170 cm", "140 x 200 cm", "150 x 220 cm", "180 x 240 cm"),
    "Coffee Canister": ("250 g", "500 g", "750 g", "1 kg", "2 kg"),
    "Scented Candle": ("120 g", "180 g", "220 g", "300 g", "400 g"),
    "Storage Basket": ("4 l", "8 l", "12 l", "20 l", "30 l"),
    "Chef's Knife": ("16 cm", "18 cm", "20 cm", "21 cm", "23 cm"),
    "Bath Towel": ("50 x 100 cm", "60 x 110 cm", "70 x 140 cm", "80 x 160 cm", "100 x 180 cm"),
    "Wall Shelf": ("40 cm", "60 cm", "80 cm", "100 cm", "120 cm"),
    "Travel Backpack": ("18 l", "22 l", "28 l", "35 l", "42 l"),
    "Stoneware Mug": ("200 ml", "250 ml", "300 ml", "350 ml", "400 ml"),
    "Yoga Mat": ("3 mm", "4 mm", "5 mm", "6 mm", "8 mm"),
    "Glass Food Container": ("350 ml", "600 ml", "900 ml", "1.2 l", "2 l"),
    "Extension Lead": ("1 m", "2 m", "3 m", "5 m", "10 m"),
    "Microfibre Cloth": ("4 pcs", "6 pcs", "10 pcs", "12 pcs", "20 pcs"),
    "Pepper Mill": ("12 cm", "15 cm", "18 cm", "22 cm", "30 cm"),
}
ARTICLES = tuple((kind, size) for kind, sizes in KINDS.items() for size in sizes)
MAX_PRODUCTS = len(BRANDS) * len(SERIES) * len(ARTICLES) * len(COLOURS)  # 576,000
COPIES = 0.08  # share of the catalogue that stands there already in other words


def _strip_accents(title: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", title) if not unicodedata.combining(c))


def _brand_last(title: str) -> str:
    brand = next(brand for brand in BRANDS if title.startswith(brand))
    return f"{title.removeprefix(brand).strip()} - {brand}"


def _close_units(title: str) -> str:
    head, colour = title.rsplit(", ", 1)
    start, unit = head.rsplit(" ", 1)
    return f"{start}{unit}, {colour}"


# How the same product gets into a catalogue a second time.
REWRITES: tuple[Callable[[str], str], ...] = (
    str.upper,
    str.lower,
    _strip_accents,
    _brand_last,
    _close_units,
    lambda title: title.replace(", ", " / "),
    lambda title: "({1}) {0}".format(*title.rsplit(", ", 1)),
    lambda title: title.replace(" ", "  ") + ".",
)


def _title(number: int) -> str:
    number, brand = divmod(number, len(BRANDS))
    number, series = divmod(number, len(SERIES))
    number, article = divmod(number, len(ARTICLES))
    kind, size = ARTICLES[article]
    return f"{BRANDS[brand]} {SERIES[series]} {kind} {size}, {COLOURS[number % len(COLOURS)]}"


def generate(records: int, seed: int) -> list[str]:
    """The titles of a made-up catalogue.

    Args:
        records: how many, 1 to `MAX_PRODUCTS`; about 8 % of them are copies in other words.
        seed: the same one gives the same titles on every machine.

    Raises:
        ValueError: `records` is out of range.
    """
    if not 1 <= records <= MAX_PRODUCTS:
        raise ValueError(f"records is {records}: a catalogue of 1 to {MAX_PRODUCTS} products can be made")
    random = Random(seed).random  # the one method whose sequence Python promises never to change
    # Steps of a length that has no factor in common with the number of titles meet each title once.
    first = int(random() * MAX_PRODUCTS)
    step = next(n for n in range(first | 1, 2 * MAX_PRODUCTS, 2) if math.gcd(n, MAX_PRODUCTS) == 1)
    originals = [_title((first + step * n) % MAX_PRODUCTS) for n in range(records - int(records * COPIES))]
    copies = [
        REWRITES[int(random() * len(REWRITES))](originals[int(random() * len(originals))])
        for _ in range(records - len(originals))
    ]
    return sorted(originals + copies, key=lambda _: random())
