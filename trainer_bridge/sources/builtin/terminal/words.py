"""Words and names of files of the terminal tasks: own ones for training, own ones held out.

No word is part of another one, so that a search for one finds no other, and no word is a name. All
are lower-case ASCII.
"""

TRAIN_WORDS = """
acorn almond amber ankle antler apron aspen atlas avocado badger bagel baker barley basil bassoon
beaver berry birch bison blossom bobcat bonfire border bronze brook buffalo bumper burrow cabbage
cactus canary carbon cargo carrot cashew catfish cavern chili cinnamon citrus clarinet cliff clover
cobra coconut comet compass condor cookie cradle crane crater cricket crimson crow cumin curry
cypress dahlia daisy dancer desert dolphin donkey dragon drizzle drummer dune eagle emerald farmer
feather ferret fiddle finch flamingo flint fossil fox frost garlic gazelle geyser giraffe glacier
goblet goose gorilla grape guitar hammer hamster harvest hazel helium heron hornet husky indigo iris
iron ivory jackal jaguar jasmine jelly jigsaw kernel kettle ladder lagoon lavender lemon leopard
lettuce lichen lizard llama lobster locust lotus lupine magnet mango maple marble marlin meadow
melon meteor mint mirror monkey monsoon moose mosaic moth muskrat mustard nebula nectar neon nettle
nutmeg oak ocelot octopus olive onion opal orchid oregano osprey otter oyster paddle panda panther
papaya parsley peach peanut pebble pelican penguin pepper phoenix piano pigeon plum poppy potato
prairie puffin pumpkin python quail quartz quince quiver rabbit raccoon radish rainbow raven
reindeer robin rooster rosemary ruby scarlet seagull sesame sparrow spider spinach squash squid
sunrise tiger timber toad tomato topaz toucan trumpet tulip tuna tundra turkey turnip turtle vanilla
velvet violet vulture walnut willow wizard wombat yarrow yogurt zinc
""".split()  # noqa: SIM905 (a list of words reads best as text)

HELD_OUT_WORDS = """
arctic armor beetle bubble camel celery cello chalk cheetah chestnut copper coyote ember falcon
fennel flute forest galaxy granite gravel hedgehog iguana jersey juniper kayak koala lantern lilac
mercury nickel owl parrot pistachio pollen rhubarb rocket saffron salmon sapphire silver stork
swallow tangerine trout walrus weasel whale zebra
""".split()  # noqa: SIM905 (a list of words reads best as text)

TRAIN_NAMES = """
abbey account agenda alert alias almanac ambassador anchor apartment aquarium arcade archive arena
armchair arrival artist asset atom attic autumn backup badge bakery ballet balloon banner barber
barrel basket batch beacon bedroom beta binder biscuit blanket blueprint board bonus booklet
bookshop bottle boulevard branch brigade brochure broker bucket budget builder bulletin bureau cabin
cable cache cafeteria calendar camera campus candidate canopy canvas capital caravan carpet carrier
cartoon castle catalog cathedral ceiling center ceremony channel chapel chapter chart checker
chimney choir chorus circle circuit circus civic claim client clinic cloakroom closet cluster cobalt
cockpit colleague colony comment company compost concert conductor config contact corner cottage
council counter coupon courier course courtyard credit crew crossing culture cupboard curtain
cushion daily damage daylight dealer decade deck delta deposit desk detail diagram diary digest
dinner dispatch district dockyard doctor domain donor doorway draft drawer dress driver dungeon
dwelling edition editor effect effort elbow election embassy emblem empire engine entry envelope
errand essay estate estuary evening event exchange exhibit expense export fabric factor faculty
fairground farmhouse fashion fellow ferry figure finance finding finger fireplace fisher fixture
flagship flight florist formula forum fountain frame friend furnace gadget galleon gallery garage
garden gateway gazette general glossary glove goal grade grammar granary graph grocery group guest
gymnasium habit hallway hammock handbook hanger harbor harness hearth helper highway horizon humor
icon idea image import income inkwell inventor invoice ironwork item itinerary jacket jetty job
joiner journey jubilee judge junction junior kennel keynote kingdom kiosk kitchen knapsack lab label
ladle lamp landlord landmark launch laundry lawyer lecture lesson letter library license lighthouse
linen listing loader loan lobby locker lodge logbook luggage lullaby magazine manager manual map
marathon margin market mattress medal melody member mention menu metric midnight mileage mill minute
monastery monthly morning motel motion motor movie museum native needle news notebook notice novel
nursery oath office opera opinion optic orchard organ origin outlet outpost oven package painter
painting palace pamphlet panel paper paragraph parlor partner passport patient pattern pavilion
peasant pencil people permit pharmacy photo phrase picture pier pilgrim pillow pilot planet planner
playground plaza pocket poem policy portal poster pottery pouch preface premium present price
princess problem product profile project promise proof prophecy proposal pulley purchase puzzle
quarry quarter query quilt rack radio railway raincoat ranking rebate recipe referee refuge refund
register reminder rental repair republic rescue reserve resort review ribbon rotunda runner saddle
safari sailboat sailor salary sandal satchel scanner schedule school science sculptor secret segment
senate sensor series sermon shelf shelter shipyard shuttle sidebar sidewalk sleigh sofa spindle
spiral sponsor squire staff staircase sticker stock stove stroller student suburb suggestion
suitcase summary summit sundial survey syllabus symbol symptom syndicate tablet tavern teacher
teapot telescope template tenant terrace textbook theater theory thesis threshold ticket token tower
tracker trader traffic tram transit travel treaty tribune trophy tunnel turret twilight tycoon uncle
vacancy valley vault vehicle vendor venue veranda verdict veteran village vineyard violin vision
volume voucher wagon waiter wardrobe warrant weather weaver weekly wharf windmill window witness
workshop yearbook zeppelin zoning
""".split()  # noqa: SIM905 (a list of words reads best as text)

HELD_OUT_NAMES = """
accent album alpha article athlete audit author baggage balance balcony bargain bazaar bench bicycle
block bracket bridge brief bundle button caller caption chamber cinema citizen clubhouse coaster
contest convoy cover custom departure design device diploma dollar drawing elevator episode feature
festival fortress foyer freight greeting guardian guide handle headline heritage holiday household
hut inbox island journal laptop ledger legend level limit lounge machine mason mayor memo merchant
mission mixer monument mural music napkin nation neutral obelisk page parcel payment penalty phone
podium postcard question quiz quote rating receipt region routine sample score seaside season
sheriff shoulder sketch speaker stadium stamp story studio subject subway supply tapestry textile
trailer trial tugboat tutor uniform viaduct visitor voyage warehouse webinar welcome wheel yacht
""".split()  # noqa: SIM905 (a list of words reads best as text)
