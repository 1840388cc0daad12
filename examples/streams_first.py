from odradek.streams import App, F

app = App("fleet")
positions = app.stream("positions", schema="driver string, speed double")

fast = positions[positions.speed > 80]
fast.to("speeding", key="driver")

drivers = positions.group_by("driver").agg(seen=F.count("*"), fastest=F.max("speed"))
drivers.materialize("drivers")
