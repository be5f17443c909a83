"""Words for the customer behind an utterance: the mood, for whom it is, and by when."""

from __future__ import annotations

from robusttc.data.synthetic.attribute import Attribute

__all__ = ["BENEFICIARY", "TONE", "URGENCY"]

# Words that follow "I am".
TONE = Attribute.parse(
    "tone",
    [
        "I am {}.",
        "Honestly I am {}.",
        "By now I am {}.",
        "You should know that I am {}, really {}.",
        "I am {}, yes, {}.",
        "I am {}, I repeat, {}.",
    ],
    {
        "angry, furious, rage, hostile": """
            furious, livid, boiling with anger, hopping mad, outraged, fuming, seething,
            beside myself with rage, incensed, ready to explode, seeing red, irate, up in arms,
            cross with all of you, enraged, raging""",
        "disappointed, let down, sad, unhappy": """
            disappointed, let down, saddened, disheartened, heartbroken, downcast, sorely disillusioned,
            gloomy, feeling low, dismayed, crestfallen, sad, unhappy, close to tears, deflated,
            feeling blue""",
        "worried, anxious, fear, nervous": """
            worried, anxious, afraid, losing sleep, nervous, scared, full of dread, uneasy, frightened,
            on edge, alarmed, biting my nails, fearing the worst, tense, panicking, apprehensive""",
        "sorry, apology, regret, guilty": """
            sorry, ashamed, full of regret, embarrassed, to blame, apologetic, feeling guilty, at fault here,
            sorry for the trouble, remorseful, red in the face, begging your pardon, owing you an apology,
            repentant, blushing with shame, mortified""",
        "confused, lost, puzzled, unclear": """
            confused, puzzled, at a loss, baffled, bewildered, lost, none the wiser, mystified, perplexed,
            in the dark, scratching my head, muddled, unsure what is what, stumped, befuddled, disoriented""",
        "surprised, amazed, astonished, unexpected": """
            surprised, amazed, astonished, taken aback, stunned, speechless, startled, flabbergasted,
            rubbing my eyes, caught off guard, astounded, dumbfounded, gaping, blown away, thunderstruck,
            staggered""",
        "grateful, thanks, appreciation, praise": """
            grateful, thankful, much obliged to you, full of appreciation, in your debt, full of thanks,
            touched by your kindness, full of praise for your staff, moved by your help, appreciative,
            indebted to your team, taking my hat off to you, so glad of the support, humbled by your care,
            singing your praises, sending you my thanks""",
        "delighted, happy, joy, satisfied": """
            delighted, over the moon, thrilled, happy, overjoyed, on cloud nine, full of joy, ecstatic,
            cheerful, jubilant, tickled pink, beaming, in high spirits, smiling from ear to ear, elated,
            glad""",
    },
)

# Names of people, after "for".
BENEFICIARY = Attribute.parse(
    "beneficiary",
    [
        "for {}",
        "on behalf of {}",
        "as a favour to {}",
        "in the name of {}",
        "to help {}",
        "as requested by {}",
    ],
    {
        "child, kid, young family member, minor": """
            my son, my daughter, our baby, my little girl, the toddler, our youngest, my teenager,
            my small boy, our twins, my eldest child, the infant, our schoolkid, my offspring, the newborn""",
        "parent, elders, older relative, senior": """
            my mother, my father, mum, dad, my parents, my grandmother, grandpa, my old folks,
            my elderly aunt, my nan, my ageing uncle, my great-grandfather, my stepmother,
            the grandparents""",
        "partner, spouse, couple, married": """
            my wife, my husband, my girlfriend, my boyfriend, my fiancée, my spouse, my better half,
            my partner, my beloved, the man I married, my bride, my sweetheart, my other half,
            the love of my life""",
        "friend, buddy, acquaintance, peer": """
            a friend, my best mate, a pal of mine, a good buddy, my old school friend, an acquaintance,
            my gym buddy, my companion, a dear friend, my pen friend, a chum, one of my mates,
            someone I hang out with, my drinking buddy""",
        "neighbour, flatmate, next door, tenant": """
            my neighbour, the people next door, my flatmate, the tenant upstairs, my landlady, our lodger,
            the family across the street, my roommate, the caretaker of our block, the folks downstairs,
            my landlord, the residents of our building, the lady one floor up, the household opposite""",
        "visitor, guest, tourist, foreigner": """
            a visitor from overseas, my house guest, a tourist, a foreign guest, an exchange visitor,
            the delegation from abroad, some holidaymakers, a newcomer to the country, the travellers with us,
            an immigrant, a stranger who speaks no English, a backpacker, the guests we are hosting,
            a refugee""",
        "pupils, class, school, teacher": """
            my pupils, my class, the kindergarten group, our school, the students I teach, my seminar group,
            the teacher, the headmistress, our university course, the exchange students, my tutor,
            the lecturer, the classroom, our college""",
        "team, club, sports, association": """
            our football team, the choir, my sports club, the chess club, our coach, the rowing crew,
            our association, the volleyball squad, the hiking society, the orchestra, our goalkeeper,
            the dance troupe, the cycling club, the theatre group""",
        "employer, company, business, work": """
            my boss, my employer, our company, the firm I work for, my manager, the office, our director,
            our sales team, the board, my line manager, our accounting section, the corporation,
            our chief executive, the head of our department""",
    },
)

# Adverbials of time.
URGENCY = Attribute.parse(
    "urgency",
    [
        "{}",
        "and that {}",
        "ideally {}",
        "{}, I repeat, {}",
    ],
    {
        "immediately, emergency, urgent, right now": """
            immediately, right now, at once, this very minute, without delay, instantly, straight away,
            on the spot, as an emergency, in the next few seconds, with top priority, urgently, this instant,
            before another minute goes by""",
        "today, same day, within hours": """
            today, by tonight, before you close this evening, this afternoon, within a few hours, by noon,
            before midnight, later this morning, by the end of the day, this evening, by dinner time,
            at five o'clock, before sunset, by close of business""",
        "tomorrow, next day, within two days": """
            tomorrow, first thing tomorrow, the day after, by tomorrow night, in a day or two,
            in the next two days, tomorrow at breakfast, overnight, by this time tomorrow,
            within forty-eight hours, on the morrow, the next day, after one more sleep,
            within a couple of days""",
        "this week, weekend, in some days, week": """
            this week, by Friday, before the weekend, on Saturday, within seven days, by Sunday, midweek,
            on Wednesday, over the weekend, in the course of the week, by Thursday, on the coming Tuesday,
            at the end of this week, after Monday""",
        "next month, weeks ahead, later, this season": """
            next month, in a few weeks, by the summer, in the autumn, before Christmas, in spring,
            in the month of June, when winter comes, after the holidays, in six weeks,
            by the end of the month, next season, in the middle of October, around Easter""",
        "next year, long term, future, years": """
            next year, in the distant future, years from now, in the long run, within the next decade,
            when I am retired, once I am old, some years ahead, in two years, by the end of the decade,
            in the far future, when a few years have passed, in a year or so, in another lifetime""",
        "no hurry, low priority, whenever, relaxed": """
            whenever you like, at your leisure, in your own time, without any hurry, when it suits you,
            at some point, no rush, sooner or later, when you get round to it, with no pressure, eventually,
            when you have a spare moment, as slowly as you please, any time at all""",
        "regularly, recurring, repeated, schedule": """
            every week, regularly, on the first of each month, once a year, every other day, daily,
            each quarter, on a recurring basis, time and again, twice a month, every morning,
            at regular intervals, repeatedly, like clockwork""",
    },
)
