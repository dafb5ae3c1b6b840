//! Graphs of blocks: who comes before whom on every way, loops, and what a branch decides alone.

use std::collections::BTreeSet;

/// A set of nodes.
pub type Nodes = BTreeSet<usize>;

/// A directed graph whose node 0.. have successors.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Of each node.
    pub successors: Vec<Vec<usize>>,
}

/// A natural loop: all that can come again before its head does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Where every turn begins.
    pub head: usize,
    /// Its nodes, the head among them.
    pub body: Nodes,
}

impl Graph {
    /// What can be reached from `from` without going through `not`; `from` itself is among it.
    pub fn reachable(&self, from: usize, not: impl Fn(usize) -> bool) -> Nodes {
        let mut found = Nodes::new();
        let mut left = vec![from];
        while let Some(node) = left.pop() {
            if !not(node) && found.insert(node) {
                left.extend(&self.successors[node]);
            }
        }
        found
    }

    /// The same graph with all arrows turned around.
    pub fn reversed(&self) -> Graph {
        let mut successors = vec![Vec::new(); self.successors.len()];
        for (node, next) in self.successors.iter().enumerate() {
            for &to in next {
                successors[to].push(node);
            }
        }
        Graph { successors }
    }

    /// For each node that can be reached from `entry`, the nodes that lie on every way to it, itself included.
    pub fn dominators(&self, entry: usize) -> Vec<Option<Nodes>> {
        let reachable = self.reachable(entry, |_| false);
        let before = self.reversed().successors;
        let mut dominators: Vec<Option<Nodes>> = vec![None; self.successors.len()];
        dominators[entry] = Some(Nodes::from([entry]));
        loop {
            let mut changed = false;
            for &node in reachable.iter().filter(|node| **node != entry) {
                let mut known = before[node].iter().filter_map(|from| dominators[*from].as_ref());
                let Some(first) = known.next() else { continue };
                let mut common = known.fold(first.clone(), |common, other| &common & other);
                common.insert(node);
                if dominators[node].as_ref() != Some(&common) {
                    dominators[node] = Some(common);
                    changed = true;
                }
            }
            if !changed {
                return dominators;
            }
        }
    }

    /// The loops that can be reached from `entry`, one a head.
    pub fn loops(&self, entry: usize) -> Vec<Loop> {
        let dominators = self.dominators(entry);
        let before = self.reversed();
        let mut loops: Vec<Loop> = Vec::new();
        for (node, next) in self.successors.iter().enumerate() {
            let Some(above) = &dominators[node] else { continue };
            for &head in next.iter().filter(|head| above.contains(head)) {
                let mut body = before.reachable(node, |back| back == head || dominators[back].is_none());
                body.insert(head);
                match loops.iter_mut().find(|known| known.head == head) {
                    Some(known) => known.body.append(&mut body),
                    None => loops.push(Loop { head, body }),
                }
            }
        }
        loops
    }

    /// What the branches of an acyclic graph decide alone: for each way out of a branch, the nodes that are executed only
    /// where that way was taken. `entry` begins and `exit` ends every way.
    pub fn arms(&self, entry: usize, exit: usize) -> Vec<Nodes> {
        let dominators = self.dominators(entry);
        let after = self.reversed().dominators(exit);
        let mut arms = Vec::new();
        for (node, next) in self.successors.iter().enumerate() {
            let (Some(_), Some(joins)) = (&dominators[node], &after[node]) else { continue };
            if next.len() < 2 {
                continue;
            }
            for &arm in next {
                let inside = self.reachable(arm, |at| at != node && joins.contains(&at));
                let alone = |at: &usize| dominators[*at].as_ref().is_some_and(|above| above.contains(&arm));
                if !inside.is_empty() && inside.iter().all(alone) {
                    arms.push(inside);
                }
            }
        }
        arms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 -> 1 -> (2 | 3) -> 4 -> (1 | 5); 3 -> 3 turns in place.
    fn graph() -> Graph {
        Graph { successors: vec![vec![1], vec![2, 3], vec![4], vec![3, 4], vec![1, 5], vec![], vec![4]] }
    }

    #[test]
    fn loops_are_nested_and_unreachable_nodes_belong_to_none() {
        let loops = graph().loops(0);
        let body = |head: usize| loops.iter().find(|l| l.head == head).map(|l| l.body.clone());
        assert_eq!(body(1), Some(Nodes::from([1, 2, 3, 4])));
        assert_eq!(body(3), Some(Nodes::from([3])));
        assert_eq!(loops.len(), 2);
    }

    #[test]
    fn arms_are_what_one_way_alone_executes() {
        // 0 -> (1 -> (2 | 3) -> 4 | 4) -> 5
        let graph = Graph { successors: vec![vec![1, 4], vec![2, 3], vec![4], vec![4], vec![5], vec![]] };
        let arms = graph.arms(0, 5);
        assert_eq!(arms, [Nodes::from([1, 2, 3]), Nodes::from([2]), Nodes::from([3])]);
    }
}
