"""Numbers and the clock in words. German says the ones before the tens, and half of the hour to come."""

_EN, _DE = (
    line.split()
    for line in (
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen"
        ),
        (
            "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
            "siebzehn achtzehn neunzehn"
        ),
    )
)
_EN_TENS, _DE_TENS = (
    line.split()
    for line in (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
)


def english(number: int) -> str:
    """2 to 99."""
    if number < 20:
        return _EN[number]
    tens, ones = divmod(number, 10)
    return _EN_TENS[tens - 2] + (f"-{_EN[ones]}" if ones else "")


def german(number: int) -> str:
    """forty-seven is seven and forty: siebenundvierzig."""
    if number < 20:
        return _DE[number]
    tens, ones = divmod(number, 10)
    return (f"{_DE[ones]}und" if ones else "") + _DE_TENS[tens - 2]


def clock(hour: int, quarter: int) -> tuple[str, str]:
    """hour 1 to 11, quarters past it 0 to 3: half past three is half four."""
    following = german(hour + 1)
    if quarter == 0:
        return f"at {english(hour)} o'clock", f"um {german(hour)} Uhr"
    if quarter == 1:
        return f"at a quarter past {_EN[hour]}", f"um Viertel nach {_alone(hour)}"
    if quarter == 2:
        return f"at half past {_EN[hour]}", f"um halb {following}"
    return f"at a quarter to {_EN[hour + 1]}", f"um Viertel vor {following}"


def _alone(number: int) -> str:
    return "eins" if number == 1 else german(number)
