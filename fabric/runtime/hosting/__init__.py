"""The runs of one worker: claims, drives, releases and polls for them. Pure, and run by the worker and by the simulator
alike.

A run is, for one worker, in one of these states. ``machine.Hosting`` keeps them.

- **unknown**: the worker does not drive it. Its row may be free, another worker's, or this one's without its knowledge.
- **driven**: ``owned`` has it; its driver is stepped. Rows wait in ``ready``, are being written (``writing``), or
  neither.
- **leaving**: it was dropped while a batch was being written. The fate of that batch decides what follows.
- **cooling**: it was dropped, and its row is still this worker's. The batch that releases it goes out at an instant.
- **asked for**: unknown, and claimed by name from an instant on (``Orphans``).

The table lists the effects of each event. In a state that is not listed for it, an event has no effect.

| event | state before | state after, and effects |
|---|---|---|
| a claim of it is answered | any | driven; what was in memory before is dropped, a cooldown ends |
| ... and ``quarantine.verdict`` puts it away | any | cooling, for no time, with the verdict |
| ... and its revision cannot be loaded | any | cooling, for ``hold_s`` |
| a claim by name does not bring it | asked for | unknown, until the next look |
| the driver asks for ``Release`` | driven | unknown |
| the driver names damage | driven | cooling: for no time with the verdict, for ``hold_s`` without one; leaving while a batch is being written |
| the driver raises | driven | cooling, for ``hold_s``; leaving while a batch is being written |
| a batch committed | driven | driven, stepped with ``Committed``; the store is polled if runs became due |
| | leaving | cooling, for ``hold_s`` |
| a batch was fenced | driven, leaving | asked for, a sweep later |
| the family was full | driven, leaving | asked for, a sweep later; its next owner spawns no child |
| an input or a grant was gone | driven | cooling, for no time |
| | leaving | cooling, for ``hold_s`` |
| a batch failed, or its fate is unknown | driven, leaving | cooling, for ``hold_s`` |
| a fate of before it was claimed anew | driven | driven: that batch was another owner's |
| its cooldown is over | cooling | unknown; its releasing batch is written |
| its releasing batch committed | unknown | unknown; the store is polled for due runs |
| its releasing batch did not commit | unknown | asked for, a sweep later |
| a call is answered | driven | driven, stepped with ``Answered``, also where an owner before made the call: it is journaled as late |
| a call of an answer that streams in | driven | driven, stepped with ``Streamed`` if the call is still out |
| a call was not sent, since the lease does not cover it | driven | driven, stepped with ``CutShort``: it releases itself |
| a budget or a token is given or denied | driven | driven, stepped with ``Granted`` or ``Denied`` |
| an input arrives | driven | driven, stepped with ``Arrived`` |
| its timer comes | driven | driven, stepped with ``Due``; late, or where a review expires, after a look at the inbox |
| the worker stops | driven | driven, stepped with ``Draining``: it releases itself once nothing of it is out |
| the time to stop is over | driven | driven, stepped with ``CutShort``: it releases itself; a cooldown ends with the lease |
| the incarnation was retired | any | unknown |
| two looks running show its row as this worker's | unknown | asked for, at once |

The store is polled as ``polling.StorePolling`` says. A worker that stops, or whose lease covers no call, claims
nothing.
"""
