"""Rules to act by in a library, by nested loops over (model, state). Nothing of jatpo is used.

A model is (P[a, x, y], O[a, y, z], R[x, a], initial [X], discount); `table` is p(k) b_k(x) as lists [k][x], and
`values[k][a]` the alpha vectors of action a in model k.
"""

import numpy as np


def largest(weights, tie: float) -> np.ndarray:
    """Equal shares for all that are within `tie` of the largest."""
    best = max(weights)
    chosen = [index for index, weight in enumerate(weights) if weight >= best - tie]
    return np.array([1 / len(chosen) if index in chosen else 0.0 for index in range(len(weights))])


def likeliest_model(posterior, policies, tie: float) -> np.ndarray:
    """The policy [A] of the most likely model, the mean of several that are."""
    shares = largest(posterior, tie)
    return sum(share * np.asarray(own) for share, own in zip(shares, policies, strict=True))


def followed(models, prior, values, actions, observations, loyalty: float, history) -> int:
    """The model that `commit` follows after a history; `history(actions, observations)` gives posterior and beliefs."""
    lowest = min(float(value) for own in values for value in own)

    def choose(posterior, beliefs) -> int:
        scores = [
            -1.0 if b is None else p * sum((v - lowest) * w for v, w in zip(own, b, strict=True))
            for p, b, own in zip(posterior, beliefs, values, strict=True)
        ]
        return int(np.argmax(scores))

    model = choose(prior, [own[3] for own in models])
    for t in range(1, len(actions) + 1):
        posterior, beliefs, _ = history(models, prior, actions[:t], observations[:t])
        if posterior[model] == 0 or posterior[model] < loyalty * max(posterior):
            model = choose(posterior, beliefs)
    return model


def arriving(model, weights, action: int) -> list[float]:
    """sum_x w(x) P(y | x, a) for every y."""
    states = range(len(weights))
    return [sum(weights[x] * model[0][action][x][y] for x in states) for y in states]


def backup(model, vectors, belief, action: int) -> np.ndarray:
    """The best plan at `belief` that begins with `action`, state by state; impossible observations as the likeliest."""
    transition, observation, reward, _, discount = model
    states, num_observations = range(len(belief)), len(observation[action][0])
    after = arriving(model, belief, action)
    chance = [sum(after[y] * observation[action][y][z] for y in states) for z in range(num_observations)]
    likeliest = int(np.argmax(chance))

    def best(z: int) -> int:
        scores = [sum(after[y] * observation[action][y][z] * v[y] for y in states) for v in vectors]
        return int(np.argmax(scores))

    choice = [best(z if chance[z] > 0 else likeliest) for z in range(num_observations)]
    plan = []
    for x in states:
        worth = 0.0
        for y in states:
            for z in range(num_observations):
                worth += transition[action][x][y] * observation[action][y][z] * vectors[choice[z]][y]
        plan.append(reward[x][action] + discount * worth)
    return np.array(plan)


def one_step(values, table) -> np.ndarray:
    """sum_k max over the vectors of an action [A]."""
    actions = range(len(values[0]))
    return np.array(
        [
            sum(max(float(np.dot(v, own)) for v in of[a]) for of, own in zip(values, table, strict=True))
            for a in actions
        ]
    )


def observation_chances(models, table, action: int) -> list[float]:
    """The weight of every observation in the joint table after `action`."""
    count = len(models[0][1][action][0])
    chances = [0.0] * count
    for model, weights in zip(models, table, strict=True):
        for y, weight in enumerate(arriving(model, weights, action)):
            for z in range(count):
                chances[z] += weight * model[1][action][y][z]
    return chances


def after_seeing(models, table, action: int, seen: int) -> list[list[float]]:
    """The joint table after an action and an observation, of size 1."""
    joint = [
        [weight * model[1][action][y][seen] for y, weight in enumerate(arriving(model, weights, action))]
        for model, weights in zip(models, table, strict=True)
    ]
    total = sum(map(sum, joint))
    return [[weight / total for weight in own] for own in joint]


def at_quantile(chances, quantile: float) -> int:
    """The observation at which the cumulated chances pass `quantile` of their sum."""
    total, threshold = 0.0, quantile * sum(chances)
    for z, chance in enumerate(chances):
        total += chance
        if chance > 0 and total > threshold:
            return z
    return max(z for z, chance in enumerate(chances) if chance > 0)


def earned(models, table, action: int) -> float:
    """The reward of an action in the joint table."""
    return sum(
        weight * model[2][x][action]
        for model, own in zip(models, table, strict=True)
        for x, weight in enumerate(own)
    )


def discounted(models, table):
    """γ_k u_k(x): what comes later counts for γ_k in model k, and Q_1 grows with the size of a belief."""
    return [[model[4] * chance for chance in own] for model, own in zip(models, table, strict=True)]


def two_steps_sampled(models, values, table, shift: float, samples: int) -> np.ndarray:
    """Depth 2 with the first observation at the quantiles (i + shift) / samples [A]."""
    found = []
    for a in range(len(values[0])):
        chances = observation_chances(models, table, a)
        quantiles = [(i + shift) / samples for i in range(samples)]
        after = [
            discounted(models, after_seeing(models, table, a, at_quantile(chances, q))) for q in quantiles
        ]
        best = np.mean([max(one_step(values, joint)) for joint in after])
        found.append(earned(models, table, a) + sum(map(sum, table)) * best)
    return np.array(found)


def two_steps(models, values, table) -> np.ndarray:
    """Depth 2, summed over all observations [A]."""
    found = []
    for a in range(len(values[0])):
        worth = 0.0
        for z, chance in enumerate(observation_chances(models, table, a)):
            if chance > 0:
                worth += chance * max(one_step(values, discounted(models, after_seeing(models, table, a, z))))
        found.append(earned(models, table, a) + worth)
    return np.array(found)


def one_step_of_the_joint_problem(models, policies, table) -> np.ndarray:
    """R + γ sum_z P(z) sum_k p'(k) v_k(b_k'), with the models' vectors at the leaves [A]."""
    found = []
    for a in range(len(models[0][0])):
        worth = 0.0
        for z, chance in enumerate(observation_chances(models, table, a)):
            if chance > 0:
                joint = after_seeing(models, table, a, z)
                for (vectors, _), own in zip(policies, joint, strict=True):
                    worth += chance * max(float(np.dot(v, own)) for v in vectors)
        found.append(earned(models, table, a) + models[0][4] * worth)
    return np.array(found)
