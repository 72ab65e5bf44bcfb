"""An agent is killed in the middle of a tool call. The next process goes on where it stopped."""

import os
import signal
import tempfile

import threadline
from threadline import Message, ToolCall

path = os.path.join(tempfile.mkdtemp(), "agents.db")

if os.fork() == 0:  # the agent, a process of its own
    session = threadline.open(path).session("chat:42")
    session.append("Is it raining in Oslo?")
    session.append(Message.assistant("I will look.", ToolCall("c1", "weather", {"city": "Oslo"})))
    session.start_call("c1")
    os.kill(os.getpid(), signal.SIGKILL)  # no goodbye, and no result

_, status = os.wait()
print("killed by", signal.Signals(os.WTERMSIG(status)).name)

with threadline.open(path) as store:
    session = store.session("chat:42")
    for pending in session.pending:
        print("pending:", pending.call.name, pending.call.args, f"started={pending.started}")
    session.repair("the process was killed")
    for message in session.messages():
        print(f"{message.role:>9}: {message.text}")
