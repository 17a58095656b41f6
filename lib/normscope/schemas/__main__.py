"""Write the schemas anew: ``python -m normscope.schemas``."""

import sys

from normscope.resources import schema_dir
from normscope.schemas import MODELS, schema_text

for _name in MODELS:
    _path = schema_dir() / f"{_name}.schema.json"
    _path.write_text(schema_text(_name), encoding="utf-8")
    sys.stdout.write(f"{_path.name}\n")
