"""The part of transformers that python/README.md uses, with the same behaviour: callbacks set flags of a control, which are looked at after each step;
checkpoints are folders checkpoint-STEP, written beside and renamed; training resumes after the step of a checkpoint."""

import json
import os
import time


class TrainerControl:
    should_save = should_training_stop = False


class TrainerState:
    global_step = 0


class TrainerCallback:
    def on_step_end(self, args, state, control, **kwargs):
        pass

    def on_train_end(self, args, state, control, **kwargs):
        pass


class TrainingArguments:
    def __init__(self, output_dir, max_steps, save_steps):
        self.output_dir, self.max_steps, self.save_steps = output_dir, max_steps, save_steps


class Trainer:
    def __init__(self, model=None, args=None, train_dataset=None, callbacks=None):
        self.model, self.args, self.data, self.callbacks = model, args, train_dataset, callbacks or []

    def train(self, resume_from_checkpoint=None):
        state, control = TrainerState(), TrainerControl()
        if resume_from_checkpoint is not None:
            with open(os.path.join(resume_from_checkpoint, "trainer_state.json")) as f:
                kept = json.load(f)
            state.global_step, self.model["weight"] = kept["global_step"], kept["weight"]
        while state.global_step < self.args.max_steps and not control.should_training_stop:
            self.model["weight"] += self.data[state.global_step]
            state.global_step += 1
            time.sleep(0.01)
            control.should_save = state.global_step % self.args.save_steps == 0
            for callback in self.callbacks:
                callback.on_step_end(self.args, state, control, model=self.model)
            if control.should_save:
                self.save(state)
        for callback in self.callbacks:
            callback.on_train_end(self.args, state, control, model=self.model)

    def save(self, state):
        folder = os.path.join(self.args.output_dir, f"tmp-checkpoint-{state.global_step}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "trainer_state.json"), "w") as f:
            json.dump({"global_step": state.global_step, "weight": self.model["weight"]}, f)
        os.rename(folder, os.path.join(self.args.output_dir, f"checkpoint-{state.global_step}"))
