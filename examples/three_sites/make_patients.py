"""Write invented patients of one site: python make_patients.py SITE-NUMBER FILE."""

import csv
import math
import random
import sys
from pathlib import Path

number, target = int(sys.argv[1]), Path(sys.argv[2])
draw = random.Random(number)
with target.open("w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["age", "pressure", "cholesterol", "disease"])
    for _ in range(200):
        age = draw.gauss(45 + 10 * number, 8)  # the sites' patients differ in age
        pressure, cholesterol = draw.gauss(130, 18), draw.gauss(220, 45)
        risk = 0.12 * (age - 55) + 0.05 * (pressure - 130) + 0.01 * (cholesterol - 220)
        sick = draw.random() < 1 / (1 + math.exp(-risk))
        out.writerow([round(age), round(pressure), round(cholesterol), int(sick)])
