"""The interpreter into which a reader pastes the Python blocks of one page; `session` drives it.

For each line on stdin, a JSON object, one block is carried out, and one JSON object written to the file
descriptor that the first argument names.
"""

import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(answers.fileno(), False)
    names: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        block = json.loads(line)
        output = os.open(block["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.clear()
        os.environ.update(block["environment"])
        os.chdir(block["directory"])
        exit_code = 0
        try:
            # As many empty lines before it as in the page, so that a traceback names the page's line.
            source = "\n" * block["line"] + Path(block["source"]).read_text()
            exec(compile(source, block["page"], "exec"), names)
        except BaseException as error:  # noqa: BLE001 - SystemExit too is one block's end
            traceback.print_exception(error)
            exit_code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(json.dumps({"exit_code": exit_code}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
