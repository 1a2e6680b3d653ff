"""Numbers about rollouts and evaluations, under the names that trainers' users know."""
