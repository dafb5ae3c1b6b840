% The built-in knowledge base: a family of 24 people in four generations. parent(X, Y): X is a parent of Y.
parent(ada, carl).    parent(bert, carl).
parent(ada, dora).    parent(bert, dora).
parent(ada, emil).    parent(bert, emil).
parent(carl, hugo).   parent(fay, hugo).
parent(carl, iris).   parent(fay, iris).
parent(dora, jan).    parent(gus, jan).
parent(dora, kim).    parent(gus, kim).
parent(dora, lena).   parent(gus, lena).
parent(emil, max).    parent(nora, max).
parent(hugo, otto).   parent(pia, otto).
parent(hugo, quin).   parent(pia, quin).
parent(jan, rosa).    parent(sue, rosa).
parent(kim, theo).    parent(udo, theo).
parent(kim, vera).    parent(udo, vera).
parent(max, will).    parent(xena, will).

female(ada).  female(dora). female(fay).  female(iris). female(kim).  female(lena).
female(nora). female(pia).  female(rosa). female(sue).  female(vera). female(xena).
male(bert).   male(carl).   male(emil).   male(gus).    male(hugo).   male(jan).
male(max).    male(otto).   male(quin).   male(theo).   male(udo).    male(will).

mother(X, Y) :- parent(X, Y), female(X).
father(X, Y) :- parent(X, Y), male(X).
child(X, Y) :- parent(Y, X).
grandparent(X, Y) :- parent(X, Z), parent(Z, Y).
grandmother(X, Y) :- grandparent(X, Y), female(X).
ancestor(X, Y) :- parent(X, Y).
ancestor(X, Y) :- parent(X, Z), ancestor(Z, Y).
sibling(X, Y) :- parent(Z, X), parent(Z, Y).
aunt(X, Y) :- sibling(X, Z), parent(Z, Y), female(X).
uncle(X, Y) :- sibling(X, Z), parent(Z, Y), male(X).
cousin(X, Y) :- parent(A, X), sibling(A, B), parent(B, Y).
relative(X, Y) :- ancestor(Z, X), ancestor(Z, Y).
