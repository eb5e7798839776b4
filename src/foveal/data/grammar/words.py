"""The words of the grammar: English, German, and what German must know of each."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Noun:
    one: str  # dog
    multi_label: str  # dogs
    gender: str  # m, f, n
    einzahl: str  # Hund
    mehrzahl: str  # Hunde


@dataclass(frozen=True)
class Verb:
    """picks up, picked up = pick + up; holt … ab, abgeholt = ab + holen."""

    base: str
    third: str
    past: str
    particle: str  # of English: "" or up, along, away
    prefix: str  # of German, which leaves the verb: "" or ab, mit, weg
    infinitive: str  # without its prefix
    ich: str
    er: str
    participle: str  # with its prefix
    auxiliary: str  # haben or sein
    takes: tuple[str, ...] = ()  # kinds of noun that may be its object


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(*line.split()) for line in table.strip().splitlines())


def _verbs(table: str) -> tuple[Verb, ...]:
    rows: list[list[Any]] = [
        [("" if cell == "-" else cell) for cell in line.split()] for line in table.strip().splitlines()
    ]
    return tuple(Verb(*row[:10], *(tuple(takes.split("+")) for takes in row[10:])) for row in rows)


NOUNS = {
    "person": _nouns("""
        teacher teachers m Lehrer Lehrer
        doctor doctors f Ärztin Ärztinnen
        baker bakers m Bäcker Bäcker
        gardener gardeners f Gärtnerin Gärtnerinnen
        child children n Kind Kinder
        girl girls n Mädchen Mädchen
        brother brothers m Bruder Brüder
        sister sisters f Schwester Schwestern
        friend friends m Freund Freunde
        neighbour neighbours f Nachbarin Nachbarinnen
        sailor sailors m Seemann Seeleute
        singer singers f Sängerin Sängerinnen
        uncle uncles m Onkel Onkel
        aunt aunts f Tante Tanten
        painter painters m Maler Maler
        pilot pilots f Pilotin Pilotinnen
    """),
    "animal": _nouns("""
        dog dogs m Hund Hunde
        cat cats f Katze Katzen
        horse horses n Pferd Pferde
        bird birds m Vogel Vögel
        cow cows f Kuh Kühe
        sheep sheep n Schaf Schafe
        donkey donkeys m Esel Esel
        duck ducks f Ente Enten
    """),
    "thing": _nouns("""
        table tables m Tisch Tische
        chair chairs m Stuhl Stühle
        lamp lamps f Lampe Lampen
        clock clocks f Uhr Uhren
        bicycle bicycles n Fahrrad Fahrräder
        boat boats n Boot Boote
        coat coats m Mantel Mäntel
        bag bags f Tasche Taschen
        basket baskets m Korb Körbe
        violin violins f Geige Geigen
        umbrella umbrellas m Regenschirm Regenschirme
        picture pictures n Bild Bilder
    """),
    "food": _nouns("""
        apple apples m Apfel Äpfel
        cake cakes m Kuchen Kuchen
        pear pears f Birne Birnen
        soup soups f Suppe Suppen
        egg eggs n Ei Eier
        roll rolls n Brötchen Brötchen
        fish fish m Fisch Fische
        potato potatoes f Kartoffel Kartoffeln
    """),
    "text": _nouns("""
        letter letters m Brief Briefe
        book books n Buch Bücher
        story stories f Geschichte Geschichten
        poem poems n Gedicht Gedichte
        song songs n Lied Lieder
        newspaper newspapers f Zeitung Zeitungen
        novel novels m Roman Romane
        postcard postcards f Postkarte Postkarten
    """),
    "door": _nouns("""
        door doors f Tür Türen
        window windows n Fenster Fenster
        shop shops m Laden Läden
        box boxes f Kiste Kisten
        cupboard cupboards m Schrank Schränke
        gate gates n Tor Tore
    """),
    "place": _nouns("""
        garden gardens m Garten Gärten
        kitchen kitchens f Küche Küchen
        house houses n Haus Häuser
        cellar cellars m Keller Keller
        library libraries f Bibliothek Bibliotheken
        village villages n Dorf Dörfer
        workshop workshops f Werkstatt Werkstätten
        castle castles n Schloss Schlösser
    """),
}

ADJECTIVES = {  # English → the German stem to which endings go
    "person": {
        "old": "alt",
        "young": "jung",
        "friendly": "freundlich",
        "tired": "müd",
        "clever": "klug",
        "famous": "berühmt",
        "quiet": "still",
    },
    "animal": {
        "old": "alt",
        "small": "klein",
        "big": "groß",
        "brown": "braun",
        "wild": "wild",
        "hungry": "hungrig",
        "white": "weiß",
    },
    "thing": {
        "old": "alt",
        "new": "neu",
        "red": "rot",
        "blue": "blau",
        "heavy": "schwer",
        "expensive": "teur",
        "beautiful": "schön",
    },
    "food": {"fresh": "frisch", "sweet": "süß", "warm": "warm", "cold": "kalt", "small": "klein", "big": "groß"},
    "text": {"long": "lang", "short": "kurz", "new": "neu", "funny": "lustig", "sad": "traurig", "famous": "berühmt"},
    "door": {"old": "alt", "green": "grün", "small": "klein", "narrow": "schmal", "heavy": "schwer", "dark": "dunkl"},
    "place": {"old": "alt", "small": "klein", "big": "groß", "quiet": "still", "dark": "dunkl", "beautiful": "schön"},
}

ALONE = _verbs("""
    sleep sleeps slept - - schlafen schlafe schläft geschlafen haben
    work works worked - - arbeiten arbeite arbeitet gearbeitet haben
    laugh laughs laughed - - lachen lache lacht gelacht haben
    dance dances danced - - tanzen tanze tanzt getanzt haben
    wait waits waited - - warten warte wartet gewartet haben
    arrive arrives arrived - an kommen komme kommt angekommen sein
    get gets got up auf stehen stehe steht aufgestanden sein
    come comes came back zurück kommen komme kommt zurückgekommen sein
    stay stays stayed - - bleiben bleibe bleibt geblieben sein
    disappear disappears disappeared - - verschwinden verschwinde verschwindet verschwunden sein
""")

WITH_OBJECT = _verbs("""
    see sees saw - - sehen sehe sieht gesehen haben person+animal+thing
    find finds found - - finden finde findet gefunden haben animal+thing+text
    like likes liked - - mögen mag mag gemocht haben person+animal+text
    call calls called - an rufen rufe ruft angerufen haben person
    invite invites invited - ein laden lade lädt eingeladen haben person
    pick picks picked up ab holen hole holt abgeholt haben person
    feed feeds fed - - füttern füttere füttert gefüttert haben animal
    wash washes washed - - waschen wasche wäscht gewaschen haben animal+thing
    buy buys bought - - kaufen kaufe kauft gekauft haben thing+food+text
    sell sells sold - - verkaufen verkaufe verkauft verkauft haben thing+food+animal
    throw throws threw away weg werfen werfe wirft weggeworfen haben thing+text
    bring brings brought along mit bringen bringe bringt mitgebracht haben thing+food
    eat eats ate up auf essen esse isst aufgegessen haben food
    cook cooks cooked - - kochen koche kocht gekocht haben food
    translate translates translated - - übersetzen übersetze übersetzt übersetzt haben text
    write writes wrote down auf schreiben schreibe schreibt aufgeschrieben haben text
    open opens opened - auf machen mache macht aufgemacht haben door
    close closes closed - zu machen mache macht zugemacht haben door
    tidy tidies tidied up auf räumen räume räumt aufgeräumt haben place
    paint paints painted - - malen male malt gemalt haben place+thing+animal
    repair repairs repaired - - reparieren repariere repariert repariert haben door+thing
    visit visits visited - - besuchen besuche besucht besucht haben person+place
""")

WITH_TWO_OBJECTS = _verbs("""
    give gives gave - - geben gebe gibt gegeben haben thing+food+animal
    show shows showed - - zeigen zeige zeigt gezeigt haben thing+text+place
    send sends sent - - schicken schicke schickt geschickt haben text+thing
    lend lends lent - - leihen leihe leiht geliehen haben thing+text
    bring brings brought - - bringen bringe bringt gebracht haben food+thing
""")

SAYING = _verbs("""
    say says said - - sagen sage sagt gesagt haben
    know knows knew - - wissen weiß weiß gewusst haben
    hope hopes hoped - - hoffen hoffe hofft gehofft haben
    believe believes believed - - glauben glaube glaubt geglaubt haben
""")

PLACES = {  # a preposition with the dative, and the German one
    "in": "in",
    "in front of": "vor",
    "behind": "hinter",
    "near": "bei",
    "next to": "neben",
}

TIMES = {  # tense → when; the clock, weekdays and years are made, not listed
    "present": {
        "today": "heute",
        "now": "jetzt",
        "every day": "jeden Tag",
        "on Sundays": "sonntags",
        "again": "wieder",
    },
    "past": {
        "yesterday": "gestern",
        "last week": "letzte Woche",
        "yesterday evening": "gestern Abend",
        "three days ago": "vor drei Tagen",
    },
    "future": {"tomorrow": "morgen", "next week": "nächste Woche", "tomorrow morning": "morgen früh", "soon": "bald"},
}

WEEKDAYS = {
    "Monday": "Montag",
    "Tuesday": "Dienstag",
    "Wednesday": "Mittwoch",
    "Thursday": "Donnerstag",
    "Friday": "Freitag",
    "Saturday": "Samstag",
}

BECAUSE = {"because": "weil", "although": "obwohl", "while": "während"}  # and "if", wenn, which has tenses of its own

BEGINNINGS, MIDDLES, ENDS = (  # of names
    line.split()
    for line in (
        "b br d dr f g gr h j k kl l m n p r s st t tr v w z",
        "a e i o u ai ei io",
        "l lin m mar n na nor r ra rik s ska t to vin x",
    )
)
