"""`decide(state, policy, now) -> Plan`: one cycle of scheduling, pure, explained."""
