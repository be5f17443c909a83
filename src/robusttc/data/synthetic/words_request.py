"""Words for the core of an utterance: what is wanted, of what, and in which form of sentence."""

from __future__ import annotations

from robusttc.data.synthetic.attribute import Attribute

__all__ = ["COARSE_INTENT", "FORM", "TOPIC"]

# Verb phrases that take an object: "cancel" + "the invoice for my pizza".
COARSE_INTENT = Attribute.parse(
    "coarse_intent",
    ["{}"],
    {
        "find, lost and found, locate, search": """
            find, locate, search for, look for, hunt down, discover the whereabouts of, recover, retrieve,
            get back, see where I left, dig out, track down the missing copy of, spot, come across again,
            go looking for, uncover""",
        "track, status, progress, follow up": """
            check the status of, track, follow the progress of, see how far along you are with,
            get news about, hear the latest on, keep an eye on, monitor, learn what is happening with, trace,
            follow up on, find out how things stand with, see where we are with, be kept posted about,
            watch over""",
        "understand, explanation, information, clarify": """
            understand, get an explanation of, make sense of, learn more about, have someone walk me through,
            know the meaning of, get information about, read up on, grasp the details of, be taught about,
            figure out the fine print of, clarify, have the rules explained for, comprehend, interpret,
            be enlightened about""",
        "confirm, verification, validate, double check": """
            confirm, verify, double-check, make sure of, validate, have a written confirmation of, certify,
            get reassurance about, vouch for, be certain about, approve, ratify, sign off on, authenticate,
            check the correctness of, prove""",
        "obtain, new request, apply, get one": """
            get, obtain, apply for, request, sign up for, order, be given, ask for, get hold of, purchase,
            have someone send out, pick up, be provided with, acquire, put in a request for,
            be issued with""",
        "renew, extension, prolong, keep going": """
            renew, extend, prolong, keep on with, continue, lengthen, reactivate, stay on with, carry on with,
            add another year to, get more time on, stretch out, roll over, re-subscribe to, revive,
            reinstate""",
        "repair, fault, broken, technical problem": """
            repair, fix the fault with, get working again, mend, restore, troubleshoot, solve the defect in,
            have a technician look at, sort out the malfunction of, patch up, debug, bring back to life,
            deal with the breakdown of, stop the errors with, reset, have engineers inspect""",
        "change, modification, edit details, adjust": """
            change, modify, alter, update, edit, adjust, make a small correction to, amend, revise, rework,
            swap some details of, tweak, rewrite part of, make changes to, customise, fix a wrong entry in""",
        "postpone, reschedule, delay, later date": """
            postpone, put off, move back, reschedule, delay, push back, defer, find a later date for, shift,
            hold off on, put on ice, suspend for now, choose another day for, set back, put on hold, pause""",
        "transfer, hand over, new owner, pass on": """
            transfer, hand over, pass on, sign over, give away, make somebody else the owner of, reassign,
            put another name on, change the owner of, turn over, share, bequeath, entrust, lend out,
            let another person have, delegate""",
        "dispute, objection, complaint, challenge": """
            dispute, contest, object to, complain about, appeal against, file a complaint about, challenge,
            protest against, refuse to accept, take issue with, raise an objection to, argue about, reject,
            lodge a grievance over, question the fairness of, express my disagreement with""",
        "cancel, termination, stop service, give up": """
            cancel, call off, put an end to, scrap, terminate, drop, get rid of, abandon, revoke, back out of,
            pull the plug on, do away with, withdraw from, quit, end, annul""",
    },
)

# Noun phrases, to which the grammar adds something of the service field.
TOPIC = Attribute.parse(
    "topic",
    ["{}"],
    {
        "billing, invoice, charges, amount due": """
            the bill, my last invoice, the amount due, the charges, the monthly statement, the extra fee,
            the costs listed, the sum you billed, the surcharge, the balance owed, the price breakdown,
            the overdue notice, the tax line, the reminder fee""",
        "payment method, card, how to pay, direct debit": """
            my credit card, the direct debit, the payment method, the card on file, the bank transfer,
            the instalment plan, my plastic card, the cash payment, the standing order, the digital wallet,
            the way I pay, the expired card, the down payment, the cheque""",
        "voucher, discount, promotion, coupon": """
            the voucher, my discount code, the coupon, the special offer, the promotion, the gift card,
            the price reduction, the two-for-one deal, the welcome bonus, the rebate, the seasonal sale,
            the free trial, the promo link, the money-off sticker""",
        "membership, loyalty points, subscription, club": """
            my membership, the loyalty points, the subscription, my bonus miles, the gold status, the club,
            the reward scheme, my stamps for regulars, the frequent user card, the collected stars,
            the silver tier, the season pass, the fan programme, my place in the club""",
        "contract, agreement, terms, legal": """
            the contract, our agreement, the terms and conditions, the signed deal, the arrangement we made,
            the legal clauses, the commitment period, the paperwork we both signed, the obligations,
            the small print, the notice period, the accord, the undertaking, the framework deal""",
        "insurance, claim, coverage, damage": """
            the insurance, my claim, the coverage, the policy against damage, the protection plan,
            the warranty, the liability cover, the compensation for the accident, the guarantee,
            the damage report, the premium for theft protection, the deductible, the indemnity,
            the breakage cover""",
        "document, certificate, form, paperwork": """
            the certificate, the application form, the official letter, the document, the printed record,
            the attestation, the scanned copy, the questionnaire, the signed declaration, the permit,
            the written report, the receipt with a stamp, the paper file, the dossier""",
        "address, contact details, personal data, residence": """
            my home address, my postcode, the street name on file, my contact details,
            my mobile number on file, my place of residence, the house number, my surname in your records,
            my personal data, the city in my profile, my whereabouts on record, the entry of where I live,
            my move, my date of birth on record""",
        "delivery, parcel, shipping, shipment": """
            the parcel, the shipment, the package, the delivery, the box the courier has, the consignment,
            the item in the post, the carton, the load in the van, the shipping, the freight,
            the envelope on its way, the drop-off, the dispatched goods""",
        "appointment, meeting, visit, time slot": """
            my appointment, the meeting, the time slot, the visit, the consultation, our session,
            the reserved hour, the date we agreed on, the scheduled call, the interview, the rendezvous,
            the place on the waiting list, the calendar entry, the talk with your expert""",
        "login, password, account access, sign in": """
            my password, the login, my user name, the access code, my online credentials, the sign-in page,
            the security question, the verification text message, my locked profile, the passphrase,
            the two-step check, my secret number, the authentication key, the user account""",
        "device, equipment, hardware, machine": """
            the device, the equipment, the little machine, the gadget, the reader, the hardware, the screen,
            the scanner, the battery, the charger, the appliance, the plug and cable, the sensor,
            the unit with the buttons""",
    },
)

# Frames around a verb phrase; the mark that ends the sentence is part of the frame.
FORM = Attribute.parse(
    "form",
    ["{}"],
    {
        "how to, instructions, way to do it": """
            how do I *?, what is the way to *?, which steps do I take to *?, what must I do to *?,
            how does one *?, what is the best method to *?, tell me how to *., show me the steps to *.,
            I do not know how to *., I need instructions to *., any guide on how to *?,
            what is the procedure to *?""",
        "permission, possible, allowed, may one": """
            can I *?, am I allowed to *?, is it possible to *?, may I *?, would it be all right to *?,
            do the rules let me *?, is there any chance to *?, am I entitled to *?, will you let me *?,
            is one permitted to *?, does my plan allow me to *?, do I have the right to *?""",
        "who, contact person, responsible, which department": """
            who can *?, whom do I ask to *?, which department will *?, who is responsible and can *?,
            is there a person who could *?, which of your people would *?, who has the authority to *?,
            is anybody there to *?, put me through to the one who can *., I am looking for someone to *.,
            name the person who will *., which colleague of yours is in charge and can *?""",
        "cost, price question, how much, fee": """
            how much does it cost to *?, what do you charge to *?, what is the price if I *?,
            do I pay extra to *?, is it free to *?, what will I be billed if I *?, how expensive is it to *?,
            will it cost me anything to *?, what sum do I need to *?, how many euros does it take to *?,
            tell me the fee to *., give me a quote to *.""",
        "why, reason, justification, cause": """
            why do I have to *?, what is the reason I must *?, why am I forced to *?,
            for what purpose should I *?, explain why I ought to *., how come I need to *?,
            why on earth would I *?, what makes it necessary to *?, I wonder why I must *.,
            give me one good reason to *., what is the point of having to *?, on what grounds must I *?""",
        "wish, desire, want, plan": """
            I want to *., I would like to *., I am hoping to *., I wish to *., my plan is to *.,
            I intend to *., I am keen to *., it is my desire to *., I have decided to *.,
            I am looking forward to the day I *., my aim is to *., I am going to *.""",
        "order, command, do it, instruction": """
            please *., kindly *., go ahead and *., just *., I ask you to *., do as I say and *.,
            you are to *., I instruct you to *., make it your task to *., be so good as to *.,
            you have my order to *., see to it that you *.""",
        "failed attempt, trouble, not working, problem report": """
            I tried to * but it did not work., I was not able to *., I keep failing to *.,
            my attempt to * went wrong., I could not *., nothing happens when I try to *.,
            there is an error whenever I *., I have been trying in vain to *., it will not let me *.,
            I got stuck while trying to *., I gave up trying to *., every time I * it crashes.""",
    },
)
