"""`foveal show PRESET`: how many parameters a model of this name has, and the config that it is made of."""

import dataclasses


def describe_preset(name: str) -> list[str]:
    """The preset in a line, then one line per field of its config."""
    import torch

    from foveal.deploy.measure.cost import parameters
    from foveal.models.zoo import config_of, create

    config = config_of(name)
    with torch.device("meta"):  # nobody looks at the weights
        count = parameters(create(name))
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.init}
    return [
        f"{name}: a preset of {config.family}, {count:,} parameters",
        "",
        f"config, each a field that foveal.create({name!r}, …) or --config may change",
        *(f"  {key}: {value!r}" for key, value in fields.items()),
    ]
