"""A reader that is killed, and a worker that is."""

import multiprocessing
import os
import signal
import weir


def read(reader):
    reader.receive()
    os.kill(os.getpid(), signal.SIGKILL)


def work(results):
    results.put("begun")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    writer, reader = weir.records()
    process = multiprocessing.Process(target=read, args=(reader,))
    process.start()
    reader.close()  # the child has it now
    try:
        while True:
            writer.send(b"x" * 1000, timeout=60)
    except weir.Closed as error:
        print(error.strerror)
    process.join()

    results = weir.Queue()
    process = multiprocessing.Process(target=work, args=(results,))
    process.start()
    print(results.get())
    try:
        results.get()
    except weir.PeerDied as error:
        print("told: it", str(error).split(maxsplit=4)[4])
    process.join()
