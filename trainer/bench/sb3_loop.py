"""Stable-Baselines3's own DQN loop as a contestant: `python -m trainer.bench.sb3_loop SETTINGS TESTS`.

It is the stock `DQN` with `MlpPolicy`, one optimisation a step, in a Gymnasium environment with the same vignettes and
the reward of the decision taken, with ReLU layers and Adam; the target network is copied every 1,000 steps. The module
imports no TensorFlow, so that it can run in another Python environment. Stable-Baselines3 is optional, and so is
imported by name.
"""

import importlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from trainer.bench import greedy, worker
from trainer.bench.settings import BenchVignettes, Settings

TARGET_UPDATE_INTERVAL = 1000


class Episodes:
    """Episodes over random vignettes, as `trainer.dyqn.environment` runs them in training."""

    def __init__(self, vignettes: BenchVignettes, evidence_count: int, max_questions: int, seed: int):
        self._vignettes = vignettes
        self._state: np.ndarray = np.zeros(evidence_count, np.float32)
        self._max_questions = max_questions
        self._generator = np.random.default_rng(seed)
        self._order: np.ndarray = np.zeros(0, np.int32)
        self._rewards: np.ndarray = np.zeros(NUM_DECISIONS, np.float32)
        self._revealed = self._questions = 0

    def begin(self) -> np.ndarray:
        """Draws a vignette and returns the state float32 `[E]` with its first piece of evidence."""
        chosen = self._generator.integers(len(self._vignettes.decision_counts))
        counts = self._vignettes.decision_counts[chosen]
        first, last = self._vignettes.offsets[chosen : chosen + 2]
        self._order = self._generator.permutation(self._vignettes.signed_codes[first:last])
        self._rewards = (counts / counts.max()).astype(np.float32)
        self._state[:] = 0.0
        self._revealed = self._questions = 0
        self._reveal()
        return self._state.copy()

    def act(self, action: int) -> tuple[np.ndarray, float, bool]:
        """Returns (state, reward, whether the episode has ended); asking in vain ends it with reward 0."""
        if action != Action.ASK:
            return self._state.copy(), float(self._rewards[action]), True
        if self._revealed >= len(self._order) or self._questions >= self._max_questions:
            return self._state.copy(), 0.0, True
        self._questions += 1
        self._reveal()
        return self._state.copy(), 0.0, False

    def _reveal(self) -> None:
        code = self._order[self._revealed]
        self._state[abs(code) - 1] = np.sign(code)
        self._revealed += 1


def gymnasium_environment(settings: Settings) -> Any:
    """Returns `Episodes` as a Gymnasium environment."""
    gymnasium = importlib.import_module("gymnasium")

    class VignetteGymnasium(gymnasium.Env):  # type: ignore[name-defined]
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (settings.evidence_count,), np.float32)
        action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        episodes = Episodes(settings.read_vignettes(), settings.evidence_count, settings.max_questions, settings.seed)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            return self.episodes.begin(), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            return *self.episodes.act(int(action)), False, {}

    return VignetteGymnasium()


def learner_of(settings: Settings) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[int], Any]]:
    """Returns the Q-values `[B, A]` of states `[B, E]`, and what takes training steps after the burn-in."""
    stable_baselines3, torch = importlib.import_module("stable_baselines3"), importlib.import_module("torch")
    model = stable_baselines3.DQN(
        "MlpPolicy",
        gymnasium_environment(settings),
        learning_rate=settings.learning_rate,
        buffer_size=settings.memory_capacity,
        learning_starts=settings.burn_in_steps,
        batch_size=settings.batch_size,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=TARGET_UPDATE_INTERVAL,
        policy_kwargs={
            "net_arch": list(settings.hidden_sizes),
            "activation_fn": torch.nn.ReLU,
            "optimizer_class": torch.optim.Adam,
        },
        seed=settings.seed,
        device="cpu",
    )
    model.learn(settings.burn_in_steps + 1)

    def q_values(states: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model.q_net(torch.from_numpy(states)).numpy()

    return q_values, lambda steps: model.learn(steps, reset_num_timesteps=False)


def main() -> None:
    """Answers until standard input ends."""
    worker.answer(greedy.learner(Settings.from_json(sys.argv[1]), pathlib.Path(sys.argv[2]), learner_of))


if __name__ == "__main__":
    main()
