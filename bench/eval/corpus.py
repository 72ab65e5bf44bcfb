"""A corpus with questions, made here: people who tell of their lives, and agents who work on code.

Everything is drawn from a seed, so it is the same each time. A *fact* is told in one turn, in one of several wordings,
amid turns that speak of the same people, the same things and the same files; a question asks for it in other words
than those it was told in. The train half and the test half have other names, other things and other wordings: what is
tuned on the one must hold on the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

TRAIN, TEST = 0, 1


@dataclass
class Turn:
    role: str
    text: str


@dataclass
class Conversation:
    turns: list[Turn] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """`answers`: the places, any of which answers it: sessions from 0, turns from 1; 0 is no turn in particular."""

    text: str
    kind: str
    answers: frozenset[tuple[int, int]]

    @property
    def sessions(self) -> frozenset[int]:
        return frozenset(session for session, _ in self.answers)


@dataclass
class Corpus:
    sessions: list[Conversation]
    questions: list[Question]


def half(words: str, which: int) -> list[str]:
    """Every other one of them, so that both halves are alike."""
    return [word.replace("_", " ") for word in words.split()][which::2]


PEOPLE = """
Anna Boris Carla Dmitri Elena Farid Greta Hassan Ines Jonas Keiko Liam Maya Nils Olga Pedro Quinn Rosa Samir
Tara Umberto Vera Wanda Xavier Yusuf Zoe Alma Bruno Cleo Dario
"""
SURNAMES = """
Adler Bianchi Castillo Dvorak Eriksen Fontaine Grigoryan Horvat Ivanova Jansen Kowalski Lindqvist Moreau Novak
Okafor Petrov Rahimi Sandoval Tanaka Ueda Vasquez Weber Yamada Zeman
"""
PETS = "beagle tabby_cat parrot rabbit hamster iguana pony goldfish greyhound tortoise kitten spaniel"
HOBBIES = """
pottery archery birdwatching calligraphy climbing chess sailing weaving fencing gardening juggling kayaking
knitting origami painting rowing sculpting skating surfing yoga
"""
CITIES = """
Lisbon Prague Osaka Toronto Nairobi Lima Oslo Cairo Dublin Hanoi Athens Bergen Bogota Krakow Seville Tbilisi
Zagreb Kyoto Porto Vienna
"""
FOODS = "risotto ramen paella goulash pierogi tagine dumplings ceviche moussaka lasagna biryani gnocchi falafel borscht"
JOBS = (
    "nurse librarian architect pilot baker translator plumber geologist dentist florist welder curator chemist tailor"
)
INSTRUMENTS = "violin cello trumpet drums accordion harp flute saxophone banjo oboe clarinet ukulele"
GIFTS = "telescope necklace bicycle camera suitcase lamp teapot wallet scarf typewriter globe record_player"
ILLS = "a_sprained_ankle the_flu a_migraine a_broken_wrist back_pain pneumonia a_toothache allergies insomnia vertigo"
BOOKS = "Dune Middlemarch Beloved Ulysses Emma Walden Kim Persuasion Germinal Siddhartha Nostromo Candide"
MONTHS = "January February March April May June July August September October November December"

THINGS = """
payment session user invoice search email image login feature audit rate report token file cart password data
notification retry config order stock coupon account
"""
PARTS = """
webhook cache profile export index queue resizer form flags log limiter builder refresh upload total reset
importer hub policy loader worker client parser router
"""
ERRORS = """
TimeoutError KeyError ECONNRESET DeadlockDetected UnicodeDecodeError OutOfMemory StaleElementReference
PermissionDenied EADDRINUSE NullPointerException RecursionError ChecksumMismatch SIGSEGV CertificateExpired
"""
CAUSES = """
a_missing_index an_unclosed_cursor a_race_between_workers a_wrong_time_zone an_off_by_one_bound a_leaked_socket
a_stale_cache_entry a_missing_await a_circular_import an_integer_overflow a_trailing_newline
a_shared_mutable_default
"""
FIXES = """
adding_a_lock bumping_the_pool_size pinning_the_dependency rewriting_the_query escaping_the_header
batching_the_inserts closing_the_handle validating_the_input raising_the_limit caching_the_result
splitting_the_transaction flushing_the_buffer
"""
TOOLS = "terraform ansible webpack pytest cmake docker nginx redis kafka grafana celery ruff"


PERSON, MODULE = "a person", "a module"  # made of two words each: no one of them tells who or what is meant


@dataclass(frozen=True)
class Kind:
    """A kind of fact: what it is made of, and how it is told and asked for. The answer is the last slot."""

    name: str
    slots: tuple[str, ...]
    told: tuple[str, ...]
    asked: tuple[str, ...]
    chatter: tuple[str, ...]


LIFE = (
    Kind(
        "pet",
        (PERSON, PETS, MONTHS),
        (
            "We finally did it: {0} and I adopted a {1} from the shelter in {2}!",
            "Big news from {0}: there is a new {1} in the house since {2}.",
            "Since {2} {0} has been taking care of a {1} that somebody abandoned.",
            "{0} could not resist and brought home a {1} at the end of {2}.",
        ),
        (
            "What animal did {0} get?",
            "When did {0} adopt the {1}?",
            "Which pet lives with {0} now?",
            "Does {0} still look after that {1}?",
        ),
        (
            "{0} says that pets are a lot of work.",
            "The vet told {0} to come back soon.",
            "I like animals, {0} knows that.",
        ),
    ),
    Kind(
        "hobby",
        (PERSON, HOBBIES, CITIES),
        (
            "{0} signed up for a {1} course in {2} and loves it.",
            "On weekends {0} goes to {2} for {1}, it helps against stress.",
            "{0} won a small prize for {1} at the fair in {2}.",
            "After years of hesitation {0} started {1} with a club in {2}.",
        ),
        (
            "What does {0} do in the free time to relax?",
            "Where does {0} practise {1}?",
            "Which hobby did {0} take up?",
            "Is it {1} that {0} is so fond of?",
        ),
        (
            "{0} needs more free time.",
            "A hobby would do {0} good.",
            "We talked about courses with {0}, nothing decided.",
        ),
    ),
    Kind(
        "trip",
        (PERSON, CITIES, MONTHS),
        (
            "{0} is flying to {1} in {2} to visit an old friend.",
            "The tickets to {1} are booked, {0} leaves in {2}.",
            "{0} spent most of {2} in {1} and came back with a thousand photos.",
            "For the anniversary {0} travelled to {1} by night train in {2}.",
        ),
        (
            "When did {0} go to {1}?",
            "Where did {0} travel in {2}?",
            "Which city was {0} visiting?",
            "How was the journey that {0} made?",
        ),
        ("{0} loves to travel.", "Trains are slower, {0} says, but nicer.", "Flights got expensive, {0} complained."),
    ),
    Kind(
        "job",
        (PERSON, JOBS, CITIES),
        (
            "{0} got hired as a {1} in {2}, starting on Monday!",
            "Guess who works as a {1} now? {0}, in {2}.",
            "{0} quit the office and retrained to be a {1} in {2}.",
            "They offered {0} a position as {1} in {2}, with a decent salary.",
        ),
        (
            "What is the new job of {0}?",
            "Where is {0} working as a {1}?",
            "What does {0} do for a living?",
            "Since when does {0} earn money as a {1}?",
        ),
        ("{0} had another job interview.", "Work is stressful for {0} these days.", "{0} wants to work less."),
    ),
    Kind(
        "music",
        (PERSON, INSTRUMENTS, CITIES),
        (
            "{0} has been practising the {1} for a concert in {2}.",
            "Last night {0} played the {1} on a tiny stage in {2}.",
            "{0} teaches {1} to children in {2}.",
            "The {1} that {0} bought in {2} sounds wonderful.",
        ),
        (
            "Which instrument does {0} play?",
            "Where did {0} perform with the {1}?",
            "What is {0} learning to play?",
            "{0} musician {1}",
        ),
        ("{0} listens to music all day.", "The concert was sold out, {0} was sad.", "{0} likes loud bands."),
    ),
    Kind(
        "gift",
        (PERSON, PERSON, GIFTS),
        (
            "For her birthday {1} received a {2} from {0}.",
            "{0} surprised {1} with a {2}, wrapped in newspaper.",
            "I helped {0} choose a {2} as a present for {1}.",
            "{1} unpacked the {2} that {0} had sent, and cried.",
        ),
        (
            "What did {0} give to {1}?",
            "Which present did {1} get from {0}?",
            "Who gave {1} a {2}?",
            "What was {0}'s gift for {1}?",
        ),
        ("{0} never knows what to buy.", "{0} hates birthdays.", "Wrapping presents is not for {0}."),
    ),
    Kind(
        "ill",
        (PERSON, ILLS, MONTHS),
        (
            "{0} was in bed with {1} for two weeks in {2}.",
            "The doctor said that {0} has {1}; it began in {2}.",
            "Because of {1} {0} had to cancel everything in {2}.",
            "{0} is recovering from {1}, {2} was awful.",
        ),
        (
            "What health problem did {0} have?",
            "Why was {0} sick in {2}?",
            "When did {0} suffer from {1}?",
            "What was {0} diagnosed with?",
        ),
        ("{0} should see a doctor.", "{0} sleeps badly.", "Health comes first, {0} always says."),
    ),
    Kind(
        "food",
        (PERSON, FOODS, PERSON),
        (
            "{0} cooked {1} for {2} and everyone asked for seconds.",
            "The {1} that {0} made when {2} came over was divine.",
            "{0} learned to prepare {1} from {2}'s grandmother.",
            "At the potluck with {2}, {0} brought a huge pot of {1}.",
        ),
        (
            "What dish did {0} cook for {2}?",
            "{1} by {0}",
            "What did {0} prepare for dinner with {2}?",
            "Which meal is {0} good at?",
        ),
        ("{0} is hungry all the time.", "{0} found a new restaurant.", "Dinner with {0} takes hours."),
    ),
    Kind(
        "book",
        (PERSON, BOOKS, CITIES),
        (
            "{0} finished reading {1} on the train to {2}.",
            "In a shop in {2} {0} found a first edition of {1}.",
            "{0} keeps recommending {1} to the book club in {2}.",
            "It took {0} a whole winter in {2} to get through {1}.",
        ),
        (
            "Which book did {0} read?",
            "Where did {0} find {1}?",
            "What novel does {0} recommend?",
            "Did {0} like reading {1}?",
        ),
        ("{0} has too many books.", "The library was closed, {0} told me.", "{0} reads in bed."),
    ),
)

WORK = (
    Kind(
        "cause",
        (MODULE, ERRORS, CAUSES),
        (
            "The {1} in {0} came from {2}.",
            "Found it: {2} makes {0} raise {1} under load.",
            "{0} fails with {1}; the root cause is {2}.",
            "Traceback shows {1} inside {0}. Looking closer, the reason is {2}.",
        ),
        (
            "Why did {0} fail with {1}?",
            "What was the reason for the {1} in {0}?",
            "root cause {0} {1}",
            "What made {0} crash?",
        ),
        ("I ran the tests of {0} again.", "{0} needs a review.", "Let me open {0} first."),
    ),
    Kind(
        "fix",
        (MODULE, TOOLS, FIXES),
        (
            "I fixed {0} by {2}, and {1} is green again.",
            "Solved: {2} was all that {0} needed. {1} passes.",
            "The patch for {0} consists of {2}; checked with {1}.",
            "After {2}, {0} works and {1} no longer complains.",
        ),
        (
            "How did we fix {0}?",
            "What solved the problem in {0}?",
            "Which change repaired {0}?",
            "fix for {0} with {1}",
        ),
        ("{1} takes long today.", "We should upgrade {1}.", "{0} has no docs."),
    ),
    Kind(
        "where",
        (MODULE, TOOLS, CITIES),
        (
            "The settings of {0} live in src/{0}/{1}.yaml on the {2} cluster.",
            "I moved the code of {0} to lib/{0}/{1}.py for the {2} region.",
            "{1} reads /etc/{0}/{1}.conf on the hosts in {2}.",
            "The {2} deployment mounts /srv/{0}/{1} for the workers.",
        ),
        (
            "Where is the {1} configuration of {0}?",
            "Which path does {1} use for {0}?",
            "{0}/{1}",
            "In which folder do the {1} files of {0} live?",
        ),
        ("Deploying {0} now.", "{1} has a new version.", "The cluster in {2} is slow."),
    ),
    Kind(
        "decision",
        (MODULE, TOOLS, TOOLS),
        (
            "Decision: {0} moves from {1} to {2} next sprint.",
            "We agreed to replace {1} by {2} for {0}.",
            "{0} will drop {1}; {2} takes over.",
            "The team voted for {2} instead of {1} in {0}.",
        ),
        (
            "What did we decide about {1} in {0}?",
            "Which tool replaces {1} for {0}?",
            "Why does {0} use {2} instead of {1}?",
            "What was agreed for {0}?",
        ),
        ("{1} or {2}, that is the question.", "Somebody should compare {1} and {2}.", "{0} came up in the meeting."),
    ),
)

SMALL_TALK = (
    "That sounds great, tell me more about it.",
    "Oh no, I am sorry to hear that.",
    "How was your week otherwise?",
    "I did not expect that at all!",
    "Thanks for telling me.",
    "Let me think about it for a moment.",
    "Yes, exactly, that is what I meant.",
    "What happened after that?",
    "I have to go soon, but go on.",
    "It rained all day here.",
)
WORK_TALK = (
    "Let me look at the code first.",
    "Running the test suite now.",
    "All checks passed.",
    "Please open a pull request.",
    "I will read the file and report back.",
    "The build is green, the change is small.",
    "Can you explain that in more detail?",
    "Done. Anything else?",
    "The server answered with an error, trying again.",
    "I added a test for it.",
)

CHINESE = (
    ("{0}在{1}学习{2}", "{0}在哪里学习{2}"),
    ("{0}去年搬到了{1}，开始做{2}", "{0}搬到了哪里"),
)
CHINESE_SURNAMES, CHINESE_NAMES = "王李张刘陈杨赵黄周吴", ["小明", "娜", "伟", "洋", "静", "帆", "敏", "磊", "杰", "倩"]
CHINESE_CITIES = ["北京", "上海", "广州", "深圳", "成都", "杭州", "南京", "武汉", "西安", "重庆"]
CHINESE_THINGS = ["书法", "钢琴", "篮球", "摄影", "烹饪", "翻译", "园艺", "游泳", "编程", "绘画"]


def corpus(which: int, sessions: int = 240, turns: int = 22, facts: int = 3) -> Corpus:
    """Half of it: `which` is TRAIN or TEST."""
    random = Random(1_000 + which)
    made = Corpus([], [])
    asked: set[str] = set()
    known: set[tuple[str, str]] = set()
    for number in range(sessions):
        works = number % 3 == 2
        conversation = Conversation()
        told = [_fact(random, which, WORK if works else LIFE, known) for _ in range(facts)]
        spots = sorted(random.sample(range(2, turns), facts))
        talk = WORK_TALK if works else SMALL_TALK
        for turn in range(1, turns + 1):
            role = "user" if turn % 2 else "assistant"
            if turn in spots:
                kind, values, text = told[spots.index(turn)]
                conversation.turns.append(Turn(role, _padded(random, text, talk)))
                _ask(random, which, made, asked, kind, values, number, turn)
            else:
                conversation.turns.append(Turn(role, _chatter(random, which, works, told, talk)))
        if number % 12 == 5:
            _tell_in_chinese(random, which, made, conversation, number, turns)
        made.sessions.append(conversation)
    return made


Fact = tuple[Kind, list[str], str]


def _fact(random: Random, which: int, kinds: tuple[Kind, ...], known: set[tuple[str, str]] | None = None) -> Fact:
    """One that nobody has told yet, so that whoever is asked for is asked for once."""
    while True:
        kind = random.choice(kinds)
        values = [_value(random, which, slot) for slot in kind.slots]
        if known is None or (kind.name, values[0]) not in known:
            break
    if known is not None:
        known.add((kind.name, values[0]))
    return kind, values, random.choice(kind.told[which::2]).format(*values)


def _value(random: Random, which: int, slot: str) -> str:
    if slot == PERSON:
        return f"{random.choice(half(PEOPLE, which))} {random.choice(half(SURNAMES, which))}"
    if slot == MODULE:
        return f"{random.choice(half(THINGS, which))}_{random.choice(half(PARTS, which))}"
    return random.choice(half(slot, which))


def _ask(
    random: Random, which: int, made: Corpus, asked: set[str], kind: Kind, values: list[str], session: int, turn: int
) -> None:
    written = [_other_case(random, value) if kind in WORK and i == 0 else value for i, value in enumerate(values)]
    text = random.choice(kind.asked[which::2] if random.random() < 0.5 else kind.asked).format(*written)
    if text not in asked:  # what is asked twice has two answers
        asked.add(text)
        made.questions.append(Question(text, kind.name, frozenset({(session, turn)})))


def _other_case(random: Random, name: str) -> str:
    """An identifier as people type it: as it is, in CamelCase, or with spaces."""
    words = name.split("_")
    return random.choice((name, "".join(word.capitalize() for word in words), " ".join(words)))


def _padded(random: Random, text: str, talk: tuple[str, ...]) -> str:
    before, after = (random.choice(talk) if random.random() < 0.5 else "" for _ in range(2))
    return " ".join(filter(None, (before, text, after)))


def _chatter(random: Random, which: int, works: bool, told: list[Fact], talk: tuple[str, ...]) -> str:
    """Small talk; often of the people and things of this session, or of others, who are of no matter here."""
    roll = random.random()
    if roll < 0.3:
        kind, values, _ = random.choice(told)
        return random.choice(kind.chatter).format(*values)
    if roll < 0.6:
        kind, values, _ = _fact(random, which, WORK if works else LIFE)
        return random.choice(kind.chatter).format(*values)
    return " ".join(random.sample(talk, random.randint(1, 2)))


def _tell_in_chinese(
    random: Random, which: int, made: Corpus, conversation: Conversation, session: int, turns: int
) -> None:
    template, asked = CHINESE[which]
    name = random.choice(CHINESE_SURNAMES[which::2]) + random.choice(CHINESE_NAMES)
    values = [name, *(random.choice(words[which::2]) for words in (CHINESE_CITIES, CHINESE_THINGS))]
    conversation.turns.append(Turn("user", template.format(*values)))
    question = asked.format(*values)
    if not any(question == known.text for known in made.questions):
        made.questions.append(Question(question, "chinese", frozenset({(session, turns + 1)})))
