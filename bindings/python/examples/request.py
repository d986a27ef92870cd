"""A request and its reply."""

import multiprocessing
import weir


def serve(side):
    for request in side.reader:
        side.writer.send(request.upper())


if __name__ == "__main__":
    client, server = weir.duplex()
    process = multiprocessing.Process(target=serve, args=(server,))
    process.start()
    server.close()  # the child has it now
    print(client.request(b"hello", timeout=60))
    client.close()  # the child's loop ends
    process.join()
