"""The torture: everything that can go wrong with a machine goes wrong, very often, and the store is looked at
afterwards.

    make torture                  # all classes at full size, under 40 minutes on 2 cores
    SCALE=ci make torture         # a small one, for every change
    python -m torture --help      # one class, another seed, one trial once more

A class of torture makes *trials*, in *units* that each begin with the same dice: seed, class and number of the unit. So
a trial is named by three numbers, and can be run again alone. `torture.classes` lists them all."""
