"""Words for the service that is asked: its field, the kind of offer, and the channel."""

from __future__ import annotations

from robusttc.data.synthetic.attribute import Attribute, split_words

__all__ = ["CHANNEL", "FIELDS", "FINE_INTENT"]

# What an utterance of each service field is about, after "for" or "of".
FIELDS: dict[str, tuple[str, ...]] = {
    field: split_words(things)
    for field, things in {
        "bank": """
            my savings account, the mortgage, my student loan, the current account, the overdraft,
            my pension fund, the foreign currency account, my shares, the business account,
            the safe deposit box""",
        "food_delivery": """
            the pizza order, my lunch box, the noodle soup, the sushi platter, the salad bowl,
            our family dinner, the burger menu, the dessert, the weekly meal kit, the curry""",
        "travel": """
            the hotel room, my flight, the beach holiday, the cruise, the rental car, the guided tour,
            the city break, the ski trip, the camping site, the night ferry""",
        "telecom": """
            my mobile plan, the broadband line, the router, the landline, the data roaming, my SIM card,
            the streaming box, the fibre connection, the second phone line, the hotspot""",
        "health_clinic": """
            my blood test, the dental check, the vaccination, the eye exam, the physiotherapy, the X-ray,
            my prescription, the surgery, the hearing test, the allergy treatment""",
        "shop": """
            the winter coat, my new sofa, the running shoes, the washing powder, the garden chairs,
            the blender, the leather bag, the bookshelf, the wrist watch, the bed linen""",
        "public_transport": """
            my bus ticket, the tram line, the monthly train pass, the underground ride, the night bus,
            the bike on the train, the regional express, the park and ride space, the airport shuttle,
            the student travel card""",
        "energy": """
            the electricity supply, the gas heating, my solar panels, the power meter, the heat pump,
            the street lighting, the night tariff, the boiler, the charging point in the garage,
            the district heating""",
        "library": """
            the borrowed novel, the reading room, the audio book, the atlas, the old newspapers,
            the children's corner, the interlibrary loan, the study desk, the film collection,
            the sheet music""",
        "housing": """
            my apartment, the cellar, the parking space, the lift in our house, the balcony, the roof terrace,
            the laundry room, the front door, the studio flat, the shared garden""",
    }.items()
}

# Adjectives for the kind of offer that is wanted: what these labels tell apart, a coarse intent merges.
FINE_INTENT = Attribute.parse(
    "fine_intent",
    [
        "I would go for something {}.",
        "It has to be {}.",
        "Preferably {}.",
        "Make it {}.",
        "I insist on something {}.",
        "Anything {} would suit me.",
    ],
    {
        "cheap, budget option, low cost, economy": """
            cheap, low-cost, affordable, light on the wallet, inexpensive, budget-friendly, dirt-cheap,
            easy on my purse, reasonably priced, economical, thrifty, cut-price, at a bargain price,
            penny-saving""",
        "simple, easy, basic, no frills": """
            simple, easy to use, no-frills, uncomplicated, basic, foolproof, plain, user-friendly, effortless,
            straightforward, suited to beginners, free of jargon, bare-bones, minimalist""",
        "small, compact, mini, tiny": """
            tiny, compact, pocket-sized, miniature, little, small, bite-sized, minuscule, petite, slim,
            no bigger than a hand, scaled-down, dinky, microscopic""",
        "local, regional, homemade, from here": """
            local, from the region, homemade, produced round the corner, handcrafted nearby, from our town,
            from a village close by, native to this area, homegrown, from the county,
            made in the neighbourhood, run by locals, regional, rooted in this place""",
        "green, eco friendly, sustainable, climate": """
            environmentally friendly, sustainable, climate-neutral, green, recycled, carbon-free,
            plastic-free, kind to the planet, organic, biodegradable, free of emissions, eco-conscious,
            gentle on nature, made from renewable sources""",
        "flexible, adaptable, no commitment, open": """
            flexible, without commitment, adaptable, free to alter any day, open-ended, non-binding,
            adjustable, customisable, without strings attached, modular, variable, elastic, easy to switch,
            versatile""",
        "safe, secure, risk free, protected": """
            safe, secure, risk-free, well protected, fail-safe, hazard-free, childproof, tamper-proof,
            crime-resistant, guarded, thoroughly tested for dangers, bulletproof, harmless, safeguarded""",
        "modern, new, high tech, latest": """
            modern, state-of-the-art, brand-new, up to date, futuristic, high-tech, cutting-edge, innovative,
            of the newest generation, digital, smart, hypermodern, advanced, trendsetting""",
        "large, big size, family size, extra space": """
            large, enormous, extra big, roomy, jumbo-sized, huge, spacious, bulky, king-size, massive, giant,
            of generous dimensions, oversized, colossal""",
        "premium, luxury, first class, exclusive": """
            luxurious, first-class, exclusive, top of the range, deluxe, high-end, five-star, lavish,
            upmarket, opulent, fit for a king, glamorous, posh, sumptuous""",
    },
)

# Noun phrases for the way that the customer takes to the service.
CHANNEL = Attribute.parse(
    "channel",
    [
        "via {}",
        "by means of {}",
        "using {}",
        "by way of {}",
        "with the help of {}",
        "relying on {}",
    ],
    {
        "letter, post, paper mail, in writing": """
            a letter, the post, paper mail, a registered envelope, a postcard, a handwritten note,
            a stamped envelope, your post box, the postman, a fax, a typed page with my signature,
            regular mail""",
        "branch, counter, in person, on site": """
            the counter, your branch in town, a visit in person, the help desk on site, the front desk,
            the local office, the clerk at the window, the reception, the store on the high street,
            a face-to-face talk, the person at the till, the service point""",
        "phone, hotline, call, voice": """
            the hotline, a phone call, the telephone, your call centre, the toll-free number, a ring,
            the switchboard, the voice menu, a call-back, my old handset, the service line,
            an answering machine""",
        "machine, kiosk, terminal, self service": """
            the vending machine, a self-service kiosk, the terminal in the hall, the ticket machine,
            the robot arm, the automatic till, the slot in the wall, the locker station, the check-in kiosk,
            the coin machine, the unmanned booth, the cash dispenser""",
        "email, inbox, mail message, newsletter": """
            an email, my inbox, an electronic message, the mail address on your card,
            a reply to the newsletter, my mail program, an attachment, a message with a subject line,
            the mailing list, a forwarded mail, the address with the at sign, webmail""",
        "website, online, web portal, browser": """
            the website, your web portal, the home page, my browser, the online form,
            the customer area online, the internet site, the link on your page, the search bar on the site,
            my laptop, the web shop, the menu on the site""",
        "chat, messenger, chatbot, social media": """
            the live chat, the chatbot, a messenger, your social media page, an instant message,
            a direct message, the virtual assistant, the little chat window, a comment on your feed,
            a group chat, the robot that answers, a short post""",
        "app, mobile, smartphone, in app": """
            the app, my smartphone, my tablet, something from the app store, the touch screen widget,
            the mobile application, the icon on my home screen, a pocket app, your app for phones,
            push notifications, the installed app, the app update""",
    },
)
